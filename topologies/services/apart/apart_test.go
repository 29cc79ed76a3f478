package apart_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services/apart"
)

func TestMain(m *testing.M) {
	apart.Main(m, map[string]apart.Part{"busy": busy})
}

// busy uses as much CPU time as it is told, and says what it has used.
func busy(in *json.Decoder, out *json.Encoder) error {
	for {
		var most time.Duration
		if in.Decode(&most) != nil { // the test is over
			return nil
		}
		began, err := apart.Used()
		if err != nil {
			return err
		}
		u := began
		for u.CPU-began.CPU < most {
			if u, err = apart.Used(); err != nil {
				return err
			}
		}
		if err := out.Encode(u); err != nil {
			return err
		}
	}
}

func TestThePartsTimeIsItsOwn(t *testing.T) {
	const used = 50 * time.Millisecond
	part := apart.Start(t, "busy")
	ours, err := apart.Used()
	if err != nil {
		t.Fatal(err)
	}
	var before, after apart.Usage
	part.Ask(time.Duration(0), &before)
	part.Ask(used, &after)
	since, err := apart.Used()
	if err != nil {
		t.Fatal(err)
	}
	if have := after.CPU - before.CPU; have < used {
		t.Errorf("have %v of CPU time in the part, want %v at least", have, used)
	}
	if have := since.CPU - ours.CPU; have > used/2 {
		t.Errorf("have %v of CPU time in the test, which does nothing but wait", have)
	}
	if took, cores := after.Since(before); took <= 0 || math.Abs(cores*took.Seconds()-(after.CPU-before.CPU).Seconds()) > 1e-6 {
		t.Errorf("have %v with %.2f cores, want that they make %v", took, cores, after.CPU-before.CPU)
	}
	if after.Resident < 1<<20 {
		t.Errorf("have %v bytes resident, want a megabyte at least", after.Resident)
	}
}

func TestSum(t *testing.T) {
	registry := prometheus.NewRegistry()
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "asked_total"}, []string{"op", "outcome"})
	registry.MustRegister(asked)
	asked.WithLabelValues("buy", "ok").Add(2)
	asked.WithLabelValues("buy", "error").Add(3)
	asked.WithLabelValues("sell", "ok").Add(4)
	m, err := apart.Gather(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		labels []string
		want   float64
	}{
		{nil, 9},
		{[]string{"op", "buy"}, 5},
		{[]string{"outcome", "ok", "op", "buy"}, 2},
	} {
		if have := m.Sum("asked_total", c.labels...); have != c.want {
			t.Errorf("%q: have %v, want %v", c.labels, have, c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a metric that is not there: have zero, want a panic")
		}
	}()
	m.Sum("asked_total", "op", "lend")
}
