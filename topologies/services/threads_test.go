package services_test

import (
	"os"
	"testing"

	"relapse/topologies/services"
)

func TestSpareThreads(t *testing.T) {
	threads := func() int {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	const spare = 40 // more than the tests have made by now
	services.SpareThreads(spare)
	if have := threads(); have < spare {
		t.Errorf("have %d threads, want %d or more", have, spare)
	}
}
