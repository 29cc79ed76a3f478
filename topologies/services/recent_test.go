package services_test

import (
	"testing"
	"time"

	"relapse/topologies/services"
)

func TestRecent(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		events []time.Duration
		now    time.Duration
		want   float64 // a second
	}{
		{"nothing", nil, time.Second, 0},
		{"one", []time.Duration{700 * ms}, time.Second, 2},
		{"some in a slot", []time.Duration{700 * ms, 710 * ms, 749 * ms}, time.Second, 6},
		{"the slot that is not over", []time.Duration{1010 * ms}, 1020 * ms, 0},
		{"the oldest slot that counts", []time.Duration{500 * ms}, time.Second, 2},
		{"one that is older", []time.Duration{499 * ms}, time.Second, 0},
		{"gone", []time.Duration{500 * ms}, 500*ms + services.RecentGone, 0},
		{"the same slot in the round before", []time.Duration{0, 550 * ms}, time.Second, 2},
	} {
		var r services.Recent
		for _, at := range c.events {
			r.Add(at)
		}
		if have := r.PerSecond(c.now); have != c.want {
			t.Errorf("%s: have %v a second, want %v", c.name, have, c.want)
		}
	}
}
