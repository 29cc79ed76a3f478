package replays_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

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

func BenchmarkPlan(b *testing.B) {
	inc := accountService(b)
	for b.Loop() {
		plan(b, inc, "fix-route-limits-under-cache-paused")
	}
}

// bigRecord is a record of the size that a play of account-service leaves:
// about 700 series, four samples a second, 16 seconds.
func bigRecord(b *testing.B) *replays.Record {
	b.Helper()
	inc := loadSmall(b)
	r := newWorld(b, inc, "unfixed").record()
	for n := range 700 {
		labels := map[string]string{"node": fmt.Sprintf("node-%d", n%7), "op": fmt.Sprintf("op-%d", n)}
		for k := range 64 {
			r.Samples.Append("relapse_requests_total", labels, playStart.Add(time.Duration(k)*250*time.Millisecond), float64(n*k))
		}
	}
	return r
}

func BenchmarkJudge(b *testing.B) {
	r := bigRecord(b)
	for b.Loop() {
		if v := replays.JudgePlay(r); v.Outcome != replays.Pass {
			b.Fatalf("%s: %v, %s", v.Outcome, v.Validity, unexpected(v))
		}
	}
}

func BenchmarkReadRecord(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "record")
	save(b, bigRecord(b), dir)
	for b.Loop() {
		if _, err := replays.ReadRecord(dir); err != nil {
			b.Fatal(err)
		}
	}
}
