package presence_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/audit"
	"relapse/topologies/services/presence/history"
)

// audited is a running audit.
type audited struct {
	t        *testing.T
	registry *prometheus.Registry
}

func (r *rig) audit(changes ...func(*audit.Config)) *audited {
	r.t.Helper()
	c := audit.Config{
		Lists: presence.NewClient(r.lists.Address, time.Second), Claims: presence.NewClient(r.claims.Address, time.Second),
		Config: history.Config{
			Lease: lease, Interval: interval, Tick: tick, OfflineAfter: offlineAfter,
			Slack: 3 * time.Second, // the machine may be busy with other tests
		},
		Every: 50 * time.Millisecond, Violations: r.t.Output(),
	}
	for _, change := range changes {
		change(&c)
	}
	a := &audited{t: r.t, registry: prometheus.NewRegistry()}
	made, err := audit.New(c, a.registry)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("audit: %v", err)
		}
		c.Lists.Close()
		c.Claims.Close()
	})
	return a
}

// settled waits until the audit has read on twice, so that all that has happened by
// now is checked.
func (a *audited) settled() {
	a.t.Helper()
	read := func() float64 { return gathered(a.t, a.registry, "relapse_presence_audits_total") }
	from := read()
	eventually(a.t, "the history is read twice more", func() bool { return read() >= from+2 })
}

// count reads a metric of the audit.
func (a *audited) count(name string) int {
	a.t.Helper()
	return int(gathered(a.t, a.registry, name))
}

// violations gives how many there are of an invariant.
func (a *audited) violations(invariant string) int {
	a.t.Helper()
	return int(gathered(a.t, a.registry, "relapse_presence_violations_total", invariant))
}

// clean fails the test if the audit has found anything but what is named.
func (a *audited) clean(but ...string) {
	a.t.Helper()
	a.settled()
	for _, invariant := range history.Invariants {
		if have := a.violations(invariant); have > 0 && !slices.Contains(but, invariant) {
			a.t.Errorf("%s: have %d violations, want none", invariant, have)
		}
	}
}
