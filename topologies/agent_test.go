package topologies_test

import (
	"errors"
	"math"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies"
	hostagent "relapse/topologies/services/host"
)

// TestAgent has the two ends of an agent's control speak to each other.
func TestAgent(t *testing.T) {
	agent := hostagent.New(t.TempDir(), prometheus.NewRegistry())
	defer agent.Close()
	server := httptest.NewServer(agent.Control())
	defer server.Close()
	port := netip.MustParseAddrPort(server.Listener.Addr().String()).Port()
	h := topologies.NewHostInstance("/nowhere", host, topologies.Host{Name: "host-1"}, true, &topologies.Node{Name: "agent", Agent: port})
	a, err := h.Agent()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := errors.Join(a.SetHog(ctx, "hog", 0.1), a.RemoveHog(ctx, "hog"), a.RemoveHog(ctx, "hog")); err != nil {
		t.Errorf("a hog: %v", err)
	}
	if state, err := a.Leak(ctx, "leak"); err == nil {
		t.Errorf("a leak that is not there: %+v", state)
	}
	// Of edges of which nobody answers, and by their connections alone: nothing leaks.
	leak := topologies.Leak{PerConnection: topologies.MostLeak, Edges: []string{"127.0.0.1:1/metrics"}}
	if err := a.SetLeak(ctx, "leak", leak); err != nil {
		t.Errorf("the most that can leak: %v", err)
	}
	if state, err := a.Leak(ctx, "leak"); err != nil || state.Heard != 0 {
		t.Errorf("a leak: %+v, %v; want none of the edges heard", state, err)
	}
	if err := errors.Join(a.RemoveLeak(ctx, "leak"), a.RemoveLeak(ctx, "leak")); err != nil {
		t.Errorf("a leak taken away: %v", err)
	}
	more := math.Nextafter(topologies.MostLeak, math.Inf(1))
	for name, leak := range map[string]topologies.Leak{
		"per_second": {PerSecond: more}, "per_connection": {PerConnection: more, Edges: leak.Edges},
	} {
		if err := a.SetLeak(ctx, "more", leak); err == nil {
			t.Errorf("%s: it took %v, want no more than %v", name, more, float64(topologies.MostLeak))
		}
	}
}
