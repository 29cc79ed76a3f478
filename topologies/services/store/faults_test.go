package store_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func newStore(c store.Config) (*store.Store, error) { return store.New(c, prometheus.NewRegistry()) }

// split runs a node with inventories, and one with wallets that reaches it over a
// network that can fail.
func split(t *testing.T, c store.Config) (wallets *rig, n *network) {
	t.Helper()
	owner := c
	owner.Owns = []string{store.Inventories}
	n, client := between(t, newRig(t, owner).handler)
	c.Owns, c.Inventory = []string{store.Wallets}, client
	return newRig(t, c), n
}

// TestAFaultBetweenDebitAndGrant breaks off a purchase whose money is locked.
func TestAFaultBetweenDebitAndGrant(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(n *network, on bool)
	}{
		{"the inventory is away", func(n *network, on bool) { n.refuses.Store(on) }},
		{"the answer is lost", func(n *network, on bool) { n.silences.Store(on) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := config(pgtest.Databases(t, 1))
			config.Lease = 300 * time.Millisecond
			r, n := split(t, config)
			const p = api.Player(4)
			c.fault(n, true)
			if have, _ := r.buy(t, "op-1", p, dear); have != http.StatusServiceUnavailable {
				t.Errorf("have %d, want 503", have)
			}
			if have := r.wallet(t, p).Balance; have != 500 {
				t.Errorf("have a balance of %d, want 500: the money is locked", have)
			}
			if have, _ := r.buy(t, "op-2", p, cheap); have != http.StatusLocked {
				t.Errorf("another purchase: have %d, want 423", have)
			}
			if have := violations(t, config); len(have) > 0 {
				t.Errorf("in between: have violations %v, want none", have)
			}
			eventually(t, "it is seen to be unfinished", func() bool {
				sum := 0.0
				for _, database := range config.Shards.Databases {
					sum += value(t, r.registry, "relapse_ledger_unfinished", database)
				}
				return sum == 1
			})
			c.fault(n, false)
			eventually(t, "recovery settles it", func() bool { return value(t, r.registry, "relapse_recovered_total", "settled") == 1 })
			r.has(t, p, 500, dear)
			if status, balance := r.buy(t, "op-1", p, dear); status != http.StatusOK || balance != 500 {
				t.Errorf("the same again: have %d and %d, want 200 and 500", status, balance)
			}
			if status, balance := r.buy(t, "op-2", p, cheap); status != http.StatusOK || balance != 400 {
				t.Errorf("another purchase: have %d and %d, want 200 and 400", status, balance)
			}
			if have := violations(t, config); len(have) > 0 {
				t.Errorf("have violations %v, want none", have)
			}
		})
	}
}

func TestMoneyIsGivenBackForWhatIsOwned(t *testing.T) {
	c := config(pgtest.Databases(t, 1))
	c.Lease = 300 * time.Millisecond
	r, n := split(t, c)
	const p = api.Player(4)
	if have, _ := r.buy(t, "op-1", p, dear); have != http.StatusOK {
		t.Fatalf("have %d, want 200", have)
	}
	n.refuses.Store(true)
	if have, _ := r.buy(t, "op-2", p, dear); have != http.StatusServiceUnavailable {
		t.Errorf("have %d, want 503", have)
	}
	n.refuses.Store(false)
	eventually(t, "recovery releases it", func() bool { return value(t, r.registry, "relapse_recovered_total", "released") == 1 })
	r.has(t, p, 500, dear)
	if have, _ := r.buy(t, "op-2", p, dear); have != http.StatusConflict {
		t.Errorf("the same again: have %d, want 409", have)
	}
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

// TestTheHolderOfTheLockIsKilled leaves purchases of a node that goes away before it
// grants, to two others that recover at once.
func TestTheHolderOfTheLockIsKilled(t *testing.T) {
	c := config(pgtest.Databases(t, 2))
	killed := c
	killed.Lease, killed.BeforeGrant, killed.RecoverEvery = 200*time.Millisecond, time.Hour, time.Hour
	holder := newRig(t, killed)
	const buyers = 30
	var all sync.WaitGroup
	for p := range api.Player(buyers) {
		all.Go(func() {
			if have, _ := holder.buy(t, fmt.Sprintf("op-%d", p), p, dear); have != http.StatusServiceUnavailable {
				t.Errorf("player %d: have %d, want 503", p, have)
			}
		})
	}
	all.Wait()
	one, other := newRig(t, c), newRig(t, c)
	settled := func() float64 {
		return value(t, one.registry, "relapse_recovered_total", "settled") + value(t, other.registry, "relapse_recovered_total", "settled")
	}
	eventually(t, "all are recovered", func() bool { return settled() >= buyers })
	for p := range api.Player(buyers) {
		one.has(t, p, 500, dear)
	}
	if have := settled(); have != buyers {
		t.Errorf("have %v settled, want each of %d once", have, buyers)
	}
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

// TestAHolderWhoSleepsPastItsLease finishes a purchase that another node has finished.
func TestAHolderWhoSleepsPastItsLease(t *testing.T) {
	databases := pgtest.Databases(t, 1)
	c := config(databases)
	c.RecoverEvery = time.Hour
	r, n := split(t, c)
	n.held = make(chan func(), 1)
	const p = api.Player(4)
	answered := make(chan int, 1)
	go func() {
		status, _ := r.buy(t, "op-1", p, dear)
		answered <- status
	}()
	wake := <-n.held // the item is granted, and the holder does not know
	defer wake()
	ledger, err := shards.Open(c.Shards, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	if _, err := ledger.Pool(0).Exec(t.Context(), "update "+shards.Ledger.Table(p.Table())+" set lease_until = clock_timestamp() - interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	other := newRig(t, config(databases))
	eventually(t, "another node settles it", func() bool { return value(t, other.registry, "relapse_recovered_total", "settled") == 1 })
	wake()
	if have := <-answered; have != http.StatusOK {
		t.Errorf("the holder: have %d, want 200", have)
	}
	r.has(t, p, 500, dear)
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

// TestACallerFinishesWhatAnotherOneBegan has nobody recover: the caller comes again.
func TestACallerFinishesWhatAnotherOneBegan(t *testing.T) {
	c := config(pgtest.Databases(t, 1))
	c.Lease, c.RecoverEvery = 200*time.Millisecond, time.Hour
	r, n := split(t, c)
	n.silences.Store(true)
	if have, _ := r.buy(t, "op-1", 5, dear); have != http.StatusServiceUnavailable {
		t.Errorf("have %d, want 503", have)
	}
	n.silences.Store(false)
	eventually(t, "the caller gets the item", func() bool {
		status, balance := r.buy(t, "op-1", 5, dear)
		if status != http.StatusLocked && (status != http.StatusOK || balance != 500) {
			t.Fatalf("have %d and %d, want 423, and 200 and 500 at last", status, balance)
		}
		return status == http.StatusOK
	})
	r.has(t, 5, 500, dear)
}

func TestAnExpiredRecordChargesNobodyAgain(t *testing.T) {
	c := config(pgtest.Databases(t, 1))
	c.Remember = 50 * time.Millisecond
	r := newRig(t, c)
	const p = api.Player(6)
	if have, _ := r.buy(t, "op-1", p, dear); have != http.StatusOK {
		t.Fatalf("have %d, want 200", have)
	}
	if have, _ := r.post(t, "/grant", operation{Op: "op-2", Player: p, Amount: 70}); have != http.StatusOK {
		t.Fatalf("have %d, want 200", have)
	}
	eventually(t, "the answer is forgotten", func() bool {
		status, balance := r.buy(t, "op-1", p, dear)
		if status != http.StatusOK {
			t.Fatalf("have %d, want 200", status)
		}
		return balance == 570
	})
	if have := value(t, r.registry, "relapse_purchases_total", "replayed_late"); have != 1 {
		t.Errorf("have %v replayed without a record, want 1", have)
	}
	eventually(t, "that of the grant, too", func() bool {
		r.buy(t, "op-3", p, cheap)
		status, balance := r.post(t, "/grant", operation{Op: "op-2", Player: p, Amount: 70})
		return status == http.StatusOK && balance == 470
	})
	r.has(t, p, 470, cheap, dear)
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

func TestOnePurchaseAtOnceHoweverManyAsk(t *testing.T) {
	c := config(pgtest.Databases(t, 2))
	one, other := newRig(t, c), newRig(t, c)
	const p = api.Player(8)
	var all sync.WaitGroup
	for n := range 20 {
		r := []*rig{one, other}[n%2]
		all.Go(func() {
			op := fmt.Sprintf("op-%d", n%4)
			if have, _ := r.buy(t, op, p, dear); have != http.StatusOK && have != http.StatusLocked && have != http.StatusConflict {
				t.Errorf("%s: have %d, want 200, 423 or 409", op, have)
			}
		})
	}
	all.Wait()
	one.has(t, p, 500, dear)
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

// TestWithoutALedger has the same fault lose an item, and a caller who comes again pay
// again.
func TestWithoutALedger(t *testing.T) {
	c := config(pgtest.Databases(t, 1))
	c.NoLedger = true
	r, n := split(t, c)
	const p, q = api.Player(4), api.Player(5)
	if status, balance := r.buy(t, "op-0", q, dear); status != http.StatusOK || balance != 500 {
		t.Errorf("have %d and %d, want 200 and 500", status, balance)
	}
	if status, _ := r.buy(t, "op-1", q, dear); status != http.StatusConflict {
		t.Errorf("owned: have %d, want 409", status)
	}
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("without a fault: have violations %v, want none", have)
	}
	n.refuses.Store(true)
	if have, _ := r.buy(t, "op-2", p, dear); have != http.StatusServiceUnavailable {
		t.Errorf("have %d, want 503", have)
	}
	n.refuses.Store(false)
	r.has(t, p, 500)
	if have := violations(t, c); have[history.Charged] != 1 || len(have) != 1 {
		t.Errorf("the item is lost: have violations %v, want one of %s", have, history.Charged)
	}
	if have, _ := r.buy(t, "op-2", p, dear); have != http.StatusOK {
		t.Errorf("again: have %d, want 200", have)
	}
	r.has(t, p, 0, dear)
	if have := violations(t, c); have[history.Charged] != 1 || len(have) != 1 {
		t.Errorf("charged twice: have violations %v, want one of %s", have, history.Charged)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	good := []string{"--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", "--databases=127.0.0.1:1,127.0.0.1:1/other"}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "store", args)
	}
	if err := run(good, 50*time.Millisecond); err != nil {
		t.Errorf("%q: %v", good, err)
	}
	for _, have := range [][]string{
		{"--owns=wallet", "--inventory=127.0.0.1:2"}, {"--owns=inventory"}, {"--single-database"}, {"--scheme=hash-mod-n"}, {"--ledger=false"},
	} {
		if err := run(append(good[:len(good):len(good)], have...), 50*time.Millisecond); err != nil {
			t.Errorf("%q: %v", have, err)
		}
	}
	if err := run(nil, 10*time.Second); err == nil {
		t.Error("no flags: no error")
	}
	for _, have := range [][]string{
		{"x"}, {"--databases="}, {"--owns=wallet"}, {"--owns=shoes"}, {"--owns="}, {"--inventory=127.0.0.1:2"}, {"--owns=wallet", "--inventory=x"},
		{"--spread=3"}, {"--spread=-1"}, {"--scheme=luck"}, {"--connections=1"}, {"--query-timeout=-1s"}, {"--single-database=perhaps"},
		{"--ledger=perhaps"}, {"--items=0"}, {"--initial=-1"}, {"--players=-1"}, {"--lease=0s"}, {"--recover-every=0s"}, {"--remember=0s"},
		{"--before-grant=-1s"}, {"--limit=0"},
	} {
		if err := run(append(good[:len(good):len(good)], have...), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
