package samples_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/replays/samples"
)

func TestScraper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		since := func() time.Duration { return time.Since(began) }
		s := samples.NewStore()
		good := samples.NewFunc("good", "container", func() (map[string]float64, error) {
			return map[string]float64{"cpu_seconds_total": since().Seconds()}, nil
		})
		// Does not answer from 2 s to 3.5 s.
		bad := samples.NewFunc("bad", "container", func() (map[string]float64, error) {
			if at := since(); at >= 2*time.Second && at < 3500*time.Millisecond {
				return nil, errors.New("out of order")
			}
			return map[string]float64{"x": 1}, nil
		})
		// Keeps the scraper itself from asking for 1.6 s.
		late := samples.NewFunc("late", "container", func() (map[string]float64, error) {
			if since() == 4*time.Second {
				time.Sleep(1600 * time.Millisecond)
			}
			return map[string]float64{"x": 1}, nil
		})
		scraper, err := samples.NewScraper(s, good, bad, late)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10100*time.Millisecond)
		defer cancel()
		scraper.Run(ctx)
		if f := scraper.Failures(); len(f) != 1 || f[0].Node != "bad" || !f[0].At.Equal(began.Add(3250*time.Millisecond)) {
			t.Errorf("failures: %v", f)
		}
		at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
		span := func(from, to int) []samples.Span {
			return []samples.Span{{From: time.UnixMilli(at(from).UnixMilli()), To: time.UnixMilli(at(to).UnixMilli())}}
		}
		const ms = time.Millisecond
		for _, tt := range []struct {
			name     string
			from, to int
			want     []samples.Health
		}{
			{"all", 0, 10000, []samples.Health{
				{Node: "bad", Kind: "container", Ticks: 41, Failed: 6, WorstGap: 1750 * ms, WorstMiss: 250 * ms, Gaps: span(1750, 3500)},
				{Node: "good", Kind: "container", Ticks: 41, WorstGap: 250 * ms, WorstMiss: 250 * ms},
				{Node: "late", Kind: "container", Ticks: 35, Missed: 6, WorstGap: 1750 * ms, WorstMiss: 1750 * ms,
					Gaps: span(4000, 5750), Misses: span(4000, 5750)},
			}},
			{"within the silence", 2000, 3250, []samples.Health{
				{Node: "bad", Kind: "container", Ticks: 6, Failed: 6, WorstGap: 1250 * ms, WorstMiss: 250 * ms, Gaps: span(2000, 3250)},
				{Node: "good", Kind: "container", Ticks: 6, WorstGap: 250 * ms, WorstMiss: 250 * ms},
				{Node: "late", Kind: "container", Ticks: 6, WorstGap: 250 * ms, WorstMiss: 250 * ms},
			}},
			{"after all", 11000, 13000, []samples.Health{
				{Node: "bad", Kind: "container", WorstGap: 2000 * ms, WorstMiss: 2000 * ms, Gaps: span(11000, 13000), Misses: span(11000, 13000)},
				{Node: "good", Kind: "container", WorstGap: 2000 * ms, WorstMiss: 2000 * ms, Gaps: span(11000, 13000), Misses: span(11000, 13000)},
				{Node: "late", Kind: "container", WorstGap: 2000 * ms, WorstMiss: 2000 * ms, Gaps: span(11000, 13000), Misses: span(11000, 13000)},
			}},
		} {
			if diff := cmp.Diff(tt.want, s.Health(at(tt.from), at(tt.to), time.Second)); diff != "" {
				t.Errorf("%s (-want +have):\n%s", tt.name, diff)
			}
		}
		gaps, err := s.Gaps(`x`, at(0), at(10000), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		want := []samples.Gap{{Series: `x{node="bad"}`, Span: span(1750, 3500)[0]}, {Series: `x{node="late"}`, Span: span(4000, 5750)[0]}}
		// What the slow scrape read is stamped with its beginning.
		if diff := cmp.Diff(want, gaps); diff != "" {
			t.Errorf("gaps (-want +have):\n%s", diff)
		}
		if gaps, err := s.Gaps(`nosuch`, at(0), at(10000), time.Second); err != nil || len(gaps) != 1 || gaps[0].Length() != 10*time.Second {
			t.Errorf("gaps of a series that is not there: %v, %v", gaps, err)
		}
		if _, err := s.Gaps(`sum(x)`, at(0), at(1), time.Second); err == nil {
			t.Error("gaps of what is no selector: want an error, got none")
		}
	})
}

// TestScraperHanging holds that a target that hangs delays no other.
func TestScraperHanging(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := samples.NewStore()
	scraper, err := samples.NewScraper(s,
		target(t, samples.Endpoint{Node: "hangs", Kind: "memcached", Address: silent.Addr().String()}),
		target(t, samples.Endpoint{Node: "lives", Kind: "prometheus", Address: serveText(t, "/", exposition), Path: "/"}))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	scraper.Run(ctx)
	for _, h := range s.Health(began, began.Add(1500*time.Millisecond), time.Second) {
		switch {
		case h.Ticks < 3: // six on a machine that is not busy
			t.Errorf("%s: only %d scrapes", h.Node, h.Ticks)
		case h.Node == "hangs" && h.Failed != h.Ticks:
			t.Errorf("hangs: %d of %d scrapes failed, want all", h.Failed, h.Ticks)
		case h.Node == "lives" && h.Failed != 0:
			t.Errorf("lives: %d of %d scrapes failed, want none: %v", h.Failed, h.Ticks, scraper.Failures())
		}
	}
}
