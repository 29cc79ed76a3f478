package audit_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/store/audit"
	"relapse/topologies/services/store/history"
	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	initial = 1000
	players = 100
)

// rig is databases that an audit reads, and the audit.
type rig struct {
	shards   *shards.Shards
	audit    *audit.Audit
	registry *prometheus.Registry
	said     bytes.Buffer
}

func newRig(t *testing.T, databases []string) *rig {
	t.Helper()
	c := shards.Config{Databases: databases, Timeout: 3 * time.Second}
	r := &rig{registry: prometheus.NewRegistry()}
	var err error
	if r.shards, err = shards.Open(c, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.shards.Close)
	if err := r.shards.Bootstrap(t.Context(), shards.Seed{Players: players, Balance: initial}); err != nil {
		t.Fatal(err)
	}
	r.audit, err = audit.New(audit.Config{
		Shards: c, History: history.Config{Initial: initial, Bound: time.Minute, Grace: time.Nanosecond}, Violations: &r.said,
	}, r.registry)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sweep reads all tables once.
func (r *rig) sweep(t *testing.T) {
	t.Helper()
	for table := range api.Tables {
		r.audit.Table(t.Context(), table)
	}
}

// change changes rows of a player's table on a database, past everything.
func (r *rig) change(t *testing.T, database int, p api.Player, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := r.shards.Pool(database).Exec(t.Context(), shards.PerTable(statement)[p.Table()], int64(p)); err != nil {
			t.Fatal(err)
		}
	}
}

// value reads a counter or gauge by its name and the values of its labels, which are
// sorted by the labels' names; absent is zero.
func (r *rig) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

func (r *rig) violations(t *testing.T) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, invariant := range history.Invariants {
		if n := r.value(t, "relapse_violations_total", invariant); n > 0 {
			found[invariant] = n
		}
	}
	return found
}

// home is the database of a player's table, of two.
func home(p api.Player) int { return p.Table() * 2 / api.Tables }

// apart gives so many players of tables that differ.
func apart(t *testing.T, n int) (all []api.Player) {
	t.Helper()
	taken := map[int]bool{}
	for p := range api.Player(players) {
		if !taken[p.Table()] && len(all) < n {
			taken[p.Table()] = true
			all = append(all, p)
		}
	}
	if len(all) < n {
		t.Fatalf("have %d players of tables that differ, want %d", len(all), n)
	}
	return all
}

// TestWhatIsWrongIsCounted breaks each invariant once, and first what has to be right.
func TestWhatIsWrongIsCounted(t *testing.T) {
	r := newRig(t, pgtest.Databases(t, 2))
	here := func(p api.Player, statements ...string) { r.change(t, home(p), p, statements...) }
	who := apart(t, 10)
	here(who[9],
		`update wallet_NN set balance = 750, spent = 300, granted = 50, version = 3 where player = $1`,
		`insert into inventory_NN (player, item, op, price) values ($1, 'hat', 'op-1', 300)`,
		`insert into ledger_NN (player, op, kind, item, amount, state) values ($1, 'op-1', 'purchase', 'hat', 300, 'settled')`,
		`insert into ledger_NN (player, op, kind, item, amount, state) values ($1, 'op-2', 'grant', '', 50, 'settled')`,
		`insert into ledger_NN (player, op, kind, item, amount, state) values ($1, 'op-3', 'purchase', 'coat', 300, 'released')`)
	r.sweep(t)
	r.sweep(t)
	if have := r.violations(t); len(have) > 0 {
		t.Fatalf("before anything is wrong: have %v, want none", have)
	}
	for _, sum := range []struct {
		name, label string
		want        float64
	}{
		{"relapse_money", "balance", players*initial - 250}, {"relapse_money", "spent", 300}, {"relapse_money", "granted", 50}, {"relapse_money", "locked", 0},
		{"relapse_purchases", "settled", 1}, {"relapse_purchases", "released", 1}, {"relapse_purchases", "locked", 0},
	} {
		if have := r.value(t, sum.name, sum.label); have != sum.want {
			t.Errorf("%s of %s: have %v, want %v", sum.name, sum.label, have, sum.want)
		}
	}

	here(who[0], `update wallet_NN set balance = balance + 1 where player = $1`)
	here(who[1], `insert into ledger_NN (player, op, kind, item, amount, state) values ($1, 'op', 'grant', '', 50, 'settled')`)
	here(who[2],
		`update wallet_NN set balance = balance - 300, spent = 300 where player = $1`,
		`insert into ledger_NN (player, op, kind, item, amount, state) values ($1, 'op', 'purchase', 'hat', 300, 'settled')`)
	here(who[3], `insert into inventory_NN (player, item, op, price) values ($1, 'hat', 'op', 300)`)
	here(who[4], `delete from wallet_NN where player = $1`)
	here(who[5], `update wallet_NN set version = version - 1 where player = $1`)
	here(who[6],
		`update wallet_NN set balance = balance - 300, locked = 300 where player = $1`,
		`insert into ledger_NN (player, op, kind, item, amount, state, began) values ($1, 'op', 'purchase', 'hat', 300, 'locked', now() - interval '2 minutes')`)
	for _, second := range []struct {
		p     api.Player
		epoch int
		state string
	}{{who[7], 0, shards.Opened}, {who[8], 2, shards.Moved}} {
		err := pgx.BeginFunc(t.Context(), r.shards.Pool(1-home(second.p)), func(tx pgx.Tx) error {
			if err := shards.CreateTables(t.Context(), tx, second.p.Table()); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), `insert into placement (tbl, epoch, state) values ($1, $2, $3)`, second.p.Table(), second.epoch, second.state)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r.change(t, 1-home(who[8]), who[8], `insert into wallet_NN (player, balance, version) values ($1, 1000, 2)`)

	r.sweep(t)
	if have := r.violations(t); len(have) > 0 {
		t.Errorf("after one round: have %v, want none", have)
	}
	r.sweep(t)
	r.sweep(t)
	want := map[string]float64{
		history.Money: 1, history.Book: 1, history.Charged: 1, history.Unpaid: 1, history.Lost: 1, history.RolledBack: 1,
		history.Overdue: 1, history.Doubled: 1, history.LeftBehind: 1,
	}
	if have := r.violations(t); !maps.Equal(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
	if have := strings.Count(r.said.String(), "\n"); have != len(want) {
		t.Errorf("have %d lines, want %d:\n%s", have, len(want), &r.said)
	}
	if t.Failed() {
		t.Logf("violations:\n%s", &r.said)
	}
}

func TestADatabaseThatIsSilentIsNoViolation(t *testing.T) {
	server := pgtest.Servers(t, 1)[0]
	r := newRig(t, append(pgtest.Databases(t, 1), server.Address))
	r.sweep(t)
	if have := r.value(t, "relapse_audits_total"); have != api.Tables {
		t.Errorf("have %v audits, want %d", have, api.Tables)
	}
	server.Kill()
	r.sweep(t)
	r.sweep(t)
	if have := r.value(t, "relapse_audits_total"); have != api.Tables {
		t.Errorf("have %v audits, want no more of them", have)
	}
	if have := r.value(t, "relapse_audit_failures_total", server.Address); have < api.Tables {
		t.Errorf("have %v failures, want one for each table at least", have)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	r.sweep(t)
	r.sweep(t)
	if have := r.value(t, "relapse_audits_total"); have <= api.Tables {
		t.Errorf("have %v audits, want more again", have)
	}
	if have := r.violations(t); len(have) > 0 {
		t.Errorf("have violations %v, want none:\n%s", have, &r.said)
	}
}

func TestRunSweeps(t *testing.T) {
	databases := pgtest.Databases(t, 1)
	newRig(t, databases)
	registry := prometheus.NewRegistry()
	a, err := audit.New(audit.Config{
		Shards: shards.Config{Databases: databases}, History: history.Config{Initial: initial, Bound: time.Minute}, Sweep: 128 * time.Millisecond,
	}, registry)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	seen := &rig{registry: registry}
	polltest.Eventually(t, "the audit is round", func() bool { return seen.value(t, "relapse_audits_total") >= api.Tables+1 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	good := []string{"--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", "--databases=127.0.0.1:1,127.0.0.1:1/other"}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "store-audit", args)
	}
	for _, have := range [][]string{nil, {"--scheme=hash-mod-n"}, {"--ledger=false"}} {
		if err := run(append(good[:len(good):len(good)], have...), 50*time.Millisecond); err != nil {
			t.Errorf("%q: %v", have, err)
		}
	}
	if err := run(nil, 10*time.Second); err == nil {
		t.Error("no flags: no error")
	}
	for _, have := range [][]string{{"x"}, {"--databases="}, {"--sweep=1ms"}, {"--initial=-1"}, {"--bound=0s"}, {"--grace=-1s"}, {"--scheme=luck"}, {"--ledger=perhaps"}} {
		if err := run(append(good[:len(good):len(good)], have...), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
