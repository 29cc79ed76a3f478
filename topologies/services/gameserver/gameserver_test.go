package gameserver_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/gameserver"
)

// TestTicksBurnCPU holds that a tick takes the CPU time that it should, and counts.
func TestTicksBurnCPU(t *testing.T) {
	const ticks, cost = 10, 5 * time.Millisecond
	registry := prometheus.NewRegistry()
	handler := gameserver.Handler(cost, 0.3, registry)
	before := value(t, registry, "relapse_gameserver_cpu_seconds_total")
	for range ticks {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/tick", nil))
		if w.Code != http.StatusNoContent {
			t.Fatalf("have status %d, want %d", w.Code, http.StatusNoContent)
		}
	}
	if have := value(t, registry, "relapse_gameserver_cpu_seconds_total") - before; have < (ticks * cost).Seconds() {
		t.Errorf("have %v s of CPU time, want %v or more", have, ticks*cost)
	}
	if have := value(t, registry, "relapse_ticks_total"); have != ticks {
		t.Errorf("have %v ticks, want %d", have, ticks)
	}
}

func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
