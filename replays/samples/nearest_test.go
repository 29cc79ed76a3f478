package samples_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/replays/samples"
)

// TestNearest holds which series of a check is said to decide it.
func TestNearest(t *testing.T) {
	s := filled()
	at := start.Add(20 * time.Second)
	for _, tt := range []struct {
		name, query string
		want        string // labels, value, margin; "" for none
	}{
		{"one series", `servers <= 4`, "3 0.25"},
		{"the least room of several", `busy < 0.5`, "node=nginx-3 0.3 0.4"},
		{"the least room of several from below", `busy > 0.05`, "node=nginx-1 0.1 1"},
		{"the one that violates", `busy < 0.3`, "node=nginx-3 0.3 0"},
		{"the furthest of two that violate", `busy < 0.15`, "node=nginx-3 0.3 -1"},
		{"a violation before what has less room", `busy != 0.2`, "node=nginx-2 0.2 0"},
		{"what an aggregation keeps", `max by (node) (busy) < 0.5`, "node=nginx-3 0.3 0.4"},
		{"what it does not", `max(busy) < 0.5`, "0.3 0.4"},
		{"infinity that violates", `endless < 5`, "+Inf ?"},
		{"series against series, all hold", `busy < on(node) limit`, ""},
		{"series against series, one violates", `busy < on(node) (limit - 0.15 * (limit > bool 0.35))`, "node=nginx-3 ?"},
		{"no data", `nosuch > 1`, ""},
	} {
		q, err := samples.ParseQuery(tt.query)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		r := q.Instant(s, at, 10*time.Second)
		var have []string
		if n := r.Nearest; n != nil {
			for _, label := range slices.Sorted(maps.Keys(n.Labels)) {
				have = append(have, label+"="+n.Labels[label])
			}
			if n.Got != "" {
				have = append(have, n.Got)
			}
			margin := "?"
			if n.Margin != nil {
				margin = formatFloat(*n.Margin)
			}
			have = append(have, margin)
		}
		if have := strings.Join(have, " "); have != tt.want {
			t.Errorf("%s: %s: nearest is %q, want %q (%s)", tt.name, tt.query, have, tt.want, r.Reason)
		}
	}
}

// TestSpans holds how far a check reaches by its ranges alone.
func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  time.Duration
	}{
		{`servers > 1`, 0},
		{`servers offset 3s > 1`, 3 * time.Second},
		{`rate(requests_total[500ms]) > 1`, 500 * time.Millisecond},
		{`rate(requests_total[$phase]) > on() servers`, 2 * time.Second},
		{`max_over_time(servers[3s:250ms]) > 1`, 3 * time.Second},
		{`max_over_time(rate(requests_total[2s])[3s:250ms] offset 1s) > 1`, 6 * time.Second},
	} {
		q, err := samples.ParseQuery(tt.query)
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
			continue
		}
		if have := q.Spans(2 * time.Second); have != tt.want {
			t.Errorf("%s: spans %s, want %s", tt.query, have, tt.want)
		}
	}
}

// TestNodes holds whose samples a check reads.
func TestNodes(t *testing.T) {
	s := filled()
	for _, tt := range []struct{ query, want string }{
		{`sum(busy) < 1`, "nginx-1 nginx-2 nginx-3"},
		{`sum(busy{node="nginx-2"}) < 1`, "nginx-2"},
		{`sum(rate(limit[$phase])) < on() busy`, "nginx-1 nginx-2 nginx-3"},
		{`busy{node="nginx-1"} / on() servers < 1`, "nginx-1"},
		{`servers > 1`, ""},
		{`nosuch > 1`, ""},
	} {
		q, err := samples.ParseQuery(tt.query)
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
			continue
		}
		if have := strings.Join(q.Nodes(s), " "); have != tt.want {
			t.Errorf("%s reads samples of %q, want %q", tt.query, have, tt.want)
		}
	}
}
