package mover_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/mover"
	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func asItIs(*mover.Config) {}

// even is how tables are after a move from 2 x 32 to 4 x 16.
var even = []map[string]int{
	{shards.Opened: 16, shards.Dropped: 16}, {shards.Opened: 16, shards.Dropped: 16}, {shards.Opened: 16}, {shards.Opened: 16},
}

// TestTablesMoveUnderLoad has two movers: the one that comes second has nothing to do.
func TestTablesMoveUnderLoad(t *testing.T) {
	r := newRig(t, shards.Config{Databases: pgtest.Databases(t, 4), Spread: 2})
	l := start(t, r)
	eventually(t, "players buy", func() bool { return l.count() > 20 })
	var movers sync.WaitGroup
	var registries []*prometheus.Registry
	for range 2 {
		m, registry := r.newMover(t, asItIs)
		registries = append(registries, registry)
		movers.Go(func() {
			if err := run(m); err != nil {
				t.Error(err)
			}
		})
	}
	movers.Wait()
	after := l.count()
	eventually(t, "players still buy", func() bool { return l.count() > after+5 })
	l.check(t)
	if len(l.failures) > 0 {
		t.Errorf("have %d requests that failed, want none", len(l.failures))
	}
	r.hasStates(t, even...)
	sum := func(registries []*prometheus.Registry, name string, labels ...string) (sum float64) {
		for _, registry := range registries {
			sum += value(t, registry, name, labels...)
		}
		return sum
	}
	for name, want := range map[string]float64{
		"relapse_tables_moved_total": 32, "relapse_write_stop_seconds": 32, "relapse_rows_rehashed_total": 0,
		"relapse_move_failures_total": 0, "relapse_move_done": 2,
	} {
		if have := sum(registries, name); have != want {
			t.Errorf("%s: have %v, want %v", name, have, want)
		}
	}
	if have := sum(registries, "relapse_rows_copied_total", "copy"); have < seeded/4 {
		t.Errorf("have %v rows copied, want those of half the tables", have)
	}
	if sum(r.values, "relapse_refused_total", "write", "epoch")+sum(r.values, "relapse_refused_total", "read", "epoch") == 0 {
		t.Error("nobody went to an old home, so that the fence was not tried")
	}
}

var errKilled = errors.New("killed")

// TestAMoverIsKilledAtEveryStep has one mover after the other end before some step of a
// table, and the last one finish.
func TestAMoverIsKilledAtEveryStep(t *testing.T) {
	r := newRig(t, shards.Config{Databases: pgtest.Databases(t, 4), Spread: 2})
	l := start(t, r)
	moved := 0.0
	for _, step := range []string{
		mover.Begin, mover.Prepare, mover.Copy, mover.CatchUp, mover.Stop, mover.CutOver, mover.OpenIt, mover.CutOver, mover.OpenIt, mover.Stop, mover.Copy,
	} {
		times := 0
		m, registry := r.newMover(t, func(c *mover.Config) {
			c.Before = func(at string, _ int) error {
				if at == step {
					times++
				}
				if times == 2 {
					return errKilled
				}
				return nil
			}
		})
		if err := run(m); !errors.Is(err, errKilled) {
			t.Fatalf("%s: have %v, want it killed", step, err)
		}
		moved += value(t, registry, "relapse_tables_moved_total")
		before := l.count()
		eventually(t, "players buy when the mover is gone", func() bool { return l.count() > before })
	}
	drops := 0
	m, registry := r.newMover(t, func(c *mover.Config) {
		c.Before = func(at string, _ int) error {
			if at == mover.Drop {
				drops++
			}
			if drops == 3 {
				return errKilled
			}
			return nil
		}
	})
	if err := run(m); !errors.Is(err, errKilled) {
		t.Fatalf("drop: have %v, want it killed", err)
	}
	moved += value(t, registry, "relapse_tables_moved_total")
	m, registry = r.newMover(t, asItIs)
	if err := run(m); err != nil {
		t.Fatal(err)
	}
	l.check(t)
	r.hasStates(t, even...)
	// Those that were cut over and not opened were nobody's.
	if moved += value(t, registry, "relapse_tables_moved_total"); moved < 28 || moved > 32 {
		t.Errorf("have %v tables moved by all of them, want 32, or up to four less", moved)
	}
}

// TestAMoverThatSleepsThroughItsStop wakes up after writes have gone on.
func TestAMoverThatSleepsThroughItsStop(t *testing.T) {
	r := newRig(t, shards.Config{Databases: pgtest.Databases(t, 2), Spread: 1})
	slept := false
	m, registry := r.newMover(t, func(c *mover.Config) {
		c.StopWithin = 100 * time.Millisecond
		c.Before = func(at string, table int) error {
			if at != mover.CutOver || slept {
				return nil
			}
			slept = true
			for p := api.Player(0); ; p++ {
				if p.Table() == table {
					// It waits for the end of the stop.
					if status, said := r.call(0, http.MethodPost, "/grant", fmt.Sprintf(`{"op":"late","player":%d,"amount":10}`, p)); status != http.StatusOK {
						t.Errorf("a write in the stop: have %d %s, want 200", status, said)
					}
					return nil
				}
			}
		}
	})
	if err := run(m); err != nil {
		t.Fatal(err)
	}
	if have := value(t, registry, "relapse_write_stops_overdue_total"); have != 1 {
		t.Errorf("have %v stops that were over too soon, want 1", have)
	}
	if have := value(t, r.values[0], "relapse_refused_total", "write", "overdue"); have != 1 {
		t.Errorf("have %v writes that undid a stop, want 1", have)
	}
	if have := violations(t, r.config); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
	r.hasStates(t, map[string]int{shards.Opened: 32, shards.Dropped: 32}, map[string]int{shards.Opened: 32})
}

// TestASourceAndATargetAreKilled kills servers in the middle of a table's move.
func TestASourceAndATargetAreKilled(t *testing.T) {
	servers := pgtest.Servers(t, 2)
	r := newRig(t, shards.Config{Databases: []string{servers[0].Address, servers[1].Address}, Spread: 1})
	l := start(t, r)
	kill := map[string]int{mover.Copy: 1, mover.CatchUp: 0, mover.CutOver: 0, mover.OpenIt: 1}
	at := map[string]int{}
	m, registry := r.newMover(t, func(c *mover.Config) {
		c.Before = func(step string, _ int) error {
			at[step]++
			server, has := kill[step]
			if !has || at[step] != 3 {
				return nil
			}
			servers[server].Kill()
			return servers[server].Start()
		}
	})
	if err := run(m); err != nil {
		t.Fatal(err)
	}
	l.check(t)
	if have := value(t, registry, "relapse_move_failures_total"); have < 1 {
		t.Errorf("have %v failures of the move, want some: nothing was killed in the middle", have)
	}
	r.hasStates(t, map[string]int{shards.Opened: 32, shards.Dropped: 32}, map[string]int{shards.Opened: 32})
}

// TestStepsAreApart holds that a table is in the middle of its move for as long as it is
// told to be, and that none of the waits is one of writers.
func TestStepsAreApart(t *testing.T) {
	r := newRig(t, shards.Config{Databases: pgtest.Databases(t, 2), Spread: 1})
	const wait = 10 * time.Millisecond
	began := map[int]time.Time{}
	m, registry := r.newMover(t, func(c *mover.Config) {
		c.StepWait = wait
		c.Before = func(step string, table int) error {
			switch {
			case step == mover.Begin:
				began[table] = time.Now()
			case step == mover.Stop && time.Since(began[table]) < 3*wait:
				t.Errorf("table %02d: writes are stopped %v after the move began, want three waits of %v before that", table, time.Since(began[table]), wait)
			}
			return nil
		}
	})
	if err := run(m); err != nil {
		t.Fatal(err)
	}
	if have := value(t, registry, "relapse_tables_moved_total"); have != 32 || len(began) != 32 {
		t.Errorf("have %v tables moved and %d begun, want 32", have, len(began))
	}
	r.hasStates(t, map[string]int{shards.Opened: 32, shards.Dropped: 32}, map[string]int{shards.Opened: 32})
}

// TestTheAuditSeesWhatTheFencePrevents has nodes write where tables were.
func TestTheAuditSeesWhatTheFencePrevents(t *testing.T) {
	r := newRig(t, shards.Config{Databases: pgtest.Databases(t, 2), Spread: 1, Unfenced: true})
	m, _ := r.newMover(t, func(c *mover.Config) {
		c.Before = func(step string, _ int) error {
			if step == mover.Drop {
				return errKilled
			}
			return nil
		}
	})
	if err := run(m); !errors.Is(err, errKilled) {
		t.Fatalf("have %v, want it killed before it drops anything", err)
	}
	for p := range seeded {
		if status, said := r.call(0, http.MethodPost, "/grant", fmt.Sprintf(`{"op":"op-%d","player":%d,"amount":10}`, p, p)); status != http.StatusOK {
			t.Fatalf("player %d: have %d %s, want 200", p, status, said)
		}
	}
	// About half of the players are on tables that moved.
	if have := violations(t, r.config); have[history.LeftBehind] < seeded/4 || len(have) != 1 {
		t.Errorf("have violations %v, want one of %s for each write that is lost", have, history.LeftBehind)
	}
}

// TestHashModN has half of all rows move, one by one.
func TestHashModN(t *testing.T) {
	r := newRig(t, shards.Config{Databases: pgtest.Databases(t, 4), Spread: 2, Scheme: shards.ByModulus})
	l := start(t, r)
	eventually(t, "players buy", func() bool { return l.count() > 20 })
	times := 0
	m, registry := r.newMover(t, func(c *mover.Config) {
		c.Before = func(step string, _ int) error {
			times++
			if times == 50 {
				return errKilled
			}
			return nil
		}
	})
	if err := run(m); !errors.Is(err, errKilled) {
		t.Fatalf("have %v, want it killed", err)
	}
	rehashed := value(t, registry, "relapse_rows_rehashed_total")
	before := l.count()
	eventually(t, "players buy in between", func() bool { return l.count() > before+5 })
	m, registry = r.newMover(t, asItIs)
	if err := run(m); err != nil {
		t.Fatal(err)
	}
	rehashed += value(t, registry, "relapse_rows_rehashed_total")
	l.check(t)
	if rehashed < seeded/2 {
		t.Errorf("have %v rows hashed anew, want half of %d wallets at least", rehashed, seeded)
	}
	if have := value(t, registry, "relapse_tables_moved_total"); have != 0 {
		t.Errorf("have %v tables moved, want none", have)
	}
	s, err := shards.Open(r.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for d := range s.Len() {
		for table := range api.Tables {
			var lost int
			err := s.Pool(d).QueryRow(t.Context(), "select count(*) from "+shards.Wallet.Table(table)+" where player % 4 <> $1", d).Scan(&lost)
			if err != nil || lost > 0 {
				t.Errorf("table %02d of database %d: have %d players of other databases, %v; want none", table, d, lost, err)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]mover.Config{
		"no databases":     {},
		"no stop":          {StopWithin: -1},
		"few below zero":   {Few: -1},
		"a negative pause": {Pause: -1},
		"a negative wait":  {StepWait: -1},
	} {
		if name != "no databases" {
			c.Shards.Databases = []string{"127.0.0.1:1"}
		}
		if _, err := mover.New(c, prometheus.NewRegistry()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	good := []string{"--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", "--databases=127.0.0.1:1,127.0.0.1:1/other"}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "store-mover", args)
	}
	for _, have := range [][]string{nil, {"--start-after=-1s"}, {"--start-after=1h"}, {"--pause=1s"}, {"--step-wait=1s"}} {
		if err := run(append(good[:len(good):len(good)], have...), 50*time.Millisecond); err != nil {
			t.Errorf("%q: %v", have, err)
		}
	}
	if err := run(nil, 10*time.Second); err == nil {
		t.Error("no flags: no error")
	}
	for _, have := range [][]string{{"x"}, {"--databases="}, {"--stop-within=-1s"}, {"--few=-1"}, {"--pause=-1s"}, {"--step-wait=-1s"}, {"--scheme=luck"}, {"--start-after=soon"}} {
		if err := run(append(good[:len(good):len(good)], have...), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
