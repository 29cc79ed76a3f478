package replays_test

import (
	"testing"

	"relapse/replays"
)

// BenchmarkLoad is what every command waits for first.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := replays.Find("account-service"); err != nil {
			b.Fatal(err)
		}
	}
}
