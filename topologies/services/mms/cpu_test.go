package mms_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"relapse/topologies/services/mms"
)

const ms = time.Millisecond

// TestCPU has jobs come to a CPU. Time is the test's own, and counts from the start.
func TestCPU(t *testing.T) {
	type job struct {
		at    time.Duration
		class string
		cost  time.Duration
		late  time.Duration // what the timers of the worker are late by
		stays time.Duration // how long the caller waits; for ever where it is zero
	}
	type became struct {
		fate         mms.Fate
		began, ended time.Duration
	}
	never := -1 * ms
	for _, tc := range []struct {
		name     string
		most     int
		perClass bool
		drop     bool
		jobs     []job
		want     []became
		used     time.Duration
	}{
		{
			name: "one at a time, first come first served", most: -1,
			jobs: []job{{at: 0, cost: 10 * ms}, {at: 1 * ms, cost: 10 * ms}, {at: 2 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Ran, 10 * ms, 20 * ms}, {mms.Ran, 20 * ms, 30 * ms}},
			used: 30 * ms,
		},
		{
			name: "each at its cost", most: -1,
			jobs: []job{{at: 0, cost: 5 * ms}, {at: 1 * ms, cost: 20 * ms}, {at: 2 * ms, cost: 1 * ms}},
			want: []became{{mms.Ran, 0, 5 * ms}, {mms.Ran, 5 * ms, 25 * ms}, {mms.Ran, 25 * ms, 26 * ms}},
			used: 26 * ms,
		},
		{
			name: "no time is saved up while there is nothing to do", most: -1,
			jobs: []job{{at: 0, cost: 10 * ms}, {at: 50 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Ran, 50 * ms, 60 * ms}},
			used: 20 * ms,
		},
		{
			name: "what was late is made up for", most: -1,
			jobs: []job{{at: 0, cost: 10 * ms, late: 15 * ms}, {at: 1 * ms, cost: 10 * ms}, {at: 2 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 15 * ms}, {mms.Ran, 15 * ms, 20 * ms}, {mms.Ran, 20 * ms, 30 * ms}},
			used: 30 * ms,
		},
		{
			name: "a bound", most: 1,
			jobs: []job{{at: 0, cost: 10 * ms}, {at: 1 * ms, cost: 10 * ms}, {at: 2 * ms, cost: 10 * ms}, {at: 15 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Ran, 10 * ms, 20 * ms}, {mms.Overfull, never, 2 * ms}, {mms.Ran, 20 * ms, 30 * ms}},
			used: 30 * ms,
		},
		{
			name: "nothing may wait", most: 0,
			jobs: []job{{at: 0, cost: 10 * ms}, {at: 1 * ms, cost: 10 * ms}, {at: 11 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Overfull, never, 1 * ms}, {mms.Ran, 11 * ms, 21 * ms}},
			used: 20 * ms,
		},
		{
			name: "a bound for all classes together", most: 1,
			jobs: []job{{at: 0, class: "a", cost: 10 * ms}, {at: 1 * ms, class: "a", cost: 10 * ms}, {at: 2 * ms, class: "b", cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Ran, 10 * ms, 20 * ms}, {mms.Overfull, never, 2 * ms}},
			used: 20 * ms,
		},
		{
			name: "a bound for each class", most: 1, perClass: true,
			jobs: []job{
				{at: 0, class: "a", cost: 10 * ms}, {at: 1 * ms, class: "a", cost: 10 * ms},
				{at: 2 * ms, class: "b", cost: 10 * ms}, {at: 3 * ms, class: "b", cost: 10 * ms},
			},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Ran, 10 * ms, 20 * ms}, {mms.Ran, 20 * ms, 30 * ms}, {mms.Overfull, never, 3 * ms}},
			used: 30 * ms,
		},
		{
			name: "work goes on for who has left", most: -1,
			jobs: []job{{at: 0, cost: 10 * ms, stays: 5 * ms}, {at: 1 * ms, cost: 10 * ms, stays: 5 * ms}, {at: 2 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.Ran, 10 * ms, 20 * ms}, {mms.Ran, 20 * ms, 30 * ms}},
			used: 30 * ms,
		},
		{
			name: "who has left is passed over, once it has not begun", most: -1, drop: true,
			jobs: []job{{at: 0, cost: 10 * ms, stays: 5 * ms}, {at: 1 * ms, cost: 10 * ms, stays: 5 * ms}, {at: 2 * ms, cost: 10 * ms}},
			want: []became{{mms.Ran, 0, 10 * ms}, {mms.PassedOver, never, 10 * ms}, {mms.Ran, 10 * ms, 20 * ms}},
			used: 20 * ms,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var used time.Duration
				c := mms.NewCPU(tc.most, tc.perClass, tc.drop, func(cost time.Duration) { used += cost })
				start := time.Now()
				have := make([]became, len(tc.jobs))
				var all sync.WaitGroup
				for n, j := range tc.jobs {
					all.Go(func() {
						time.Sleep(j.at)
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						if j.stays > 0 {
							time.AfterFunc(j.stays, leave)
						}
						b := became{began: never}
						b.fate = c.Do(ctx, j.class, func() time.Duration {
							b.began = time.Since(start)
							time.Sleep(j.late)
							return j.cost
						})
						b.ended = time.Since(start)
						have[n] = b
					})
				}
				all.Wait()
				synctest.Wait() // for the worker
				if !slices.Equal(have, tc.want) {
					t.Errorf("became %v, want %v", have, tc.want)
				}
				if used != tc.used {
					t.Errorf("used %v, want %v", used, tc.used)
				}
				if have := c.Length(); have != 0 {
					t.Errorf("%d wait in the end, want none", have)
				}
			})
		})
	}
}

// TestCapacity has more come than the CPU can do: it does exactly as much as it
// can, however late its timers are.
func TestCapacity(t *testing.T) {
	const jobs, cost, every = 1000, 520 * time.Microsecond, 500 * time.Microsecond
	for _, tc := range []struct {
		name string
		late time.Duration // every tenth job
	}{
		{"timers in time", 0},
		{"timers that are late", 3 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := mms.NewCPU(-1, false, false, func(time.Duration) {})
				start := time.Now()
				var all sync.WaitGroup
				for n := range jobs {
					all.Go(func() {
						time.Sleep(time.Duration(n) * every)
						c.Do(t.Context(), "", func() time.Duration {
							if n%10 == 0 {
								time.Sleep(tc.late)
							}
							return cost
						})
					})
				}
				all.Wait()
				if have, want := time.Since(start), jobs*cost; have != want {
					t.Errorf("%d jobs took %v, want %v", jobs, have, want)
				}
			})
		})
	}
}
