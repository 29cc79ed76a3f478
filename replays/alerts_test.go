package replays_test

import (
	"slices"
	"testing"
	"time"

	"relapse/replays"
	"relapse/replays/samples"
)

// edge is an edge as an alert sees it: where it is, how many connections it has,
// and from which second on it no longer answers whoever measures it.
type edge struct {
	node, host  string
	connections float64
	silentAt    int // 0 for never
}

// The alert of edge-colocation is there for a host that may stop answering at any
// moment: one whose exporters say nothing must not pass for one that is well.
func TestTheAlertOnCoLocation(t *testing.T) {
	const seconds = 6
	inc, err := replays.Find("edge-colocation")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := samples.ParseRules([]byte(inc.RulesText()))
	if err != nil {
		t.Fatal(err)
	}
	three := func(connections float64, silentAt int) (out []edge) {
		for _, cluster := range []string{"euw", "eune", "br"} {
			out = append(out, edge{cluster + "-edge-1", "host-1", connections, silentAt})
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		edges []edge
		want  string // the host that it fires for; "" for none
	}{
		{"three clusters as on any day", three(30, 0), ""},
		{"three clusters with three times the connections", three(100, 0), "host-1"},
		{"three clusters whose exporters stop answering on any day", three(30, 2), "host-1"},
		{"three clusters with many connections, whose exporters stop answering", three(100, 2), "host-1"},
		{"two clusters with as many connections", three(200, 0)[:2], ""},
		{"two clusters whose exporters stop answering", three(30, 2)[:2], ""},
		{"one of three edges that is silent", append(three(30, 0)[:2], three(30, 2)[2]), "host-1"},
		{"clusters apart", []edge{{"euw-edge-1", "host-1", 300, 0}, {"eune-edge-1", "host-2", 300, 2}, {"br-edge-1", "host-3", 300, 0}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, start := samples.NewStore(), time.UnixMilli(0)
			for n := range seconds * 4 {
				at := start.Add(time.Duration(n) * samples.Period)
				for _, e := range tc.edges {
					on, up := map[string]string{"node": e.node, "host": e.host}, 1.0
					if e.silentAt > 0 && n >= e.silentAt*4 {
						up = 0
					} else {
						store.Append("relapse_edge_connections", on, at, e.connections)
					}
					store.Append("up", on, at, up)
				}
			}
			spans, err := rules.Evaluate(store, start, start.Add(seconds*time.Second), samples.Period)
			if err != nil {
				t.Fatal(err)
			}
			have := []string{}
			for _, s := range spans {
				if s.State == samples.Firing {
					have = append(have, s.Labels["host"])
				}
			}
			want := []string{}
			if tc.want != "" {
				want = append(want, tc.want)
			}
			if slices.Sort(have); !slices.Equal(slices.Compact(have), want) {
				t.Errorf("fires for %v, want %v", have, want)
			}
		})
	}
}
