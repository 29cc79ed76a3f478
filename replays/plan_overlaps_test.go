package replays_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"relapse/replays"
	"relapse/topologies"
)

// TestOverlaps holds which two faults may be held on one target at once: b is
// refused beside a, or both are planned. The errors in full are under testdata/bad.
func TestOverlaps(t *testing.T) {
	before, broken, after := []string{"before"}, []string{"broken"}, []string{"after"}
	for _, tc := range []struct {
		name         string
		a, b         string
		heldA, heldB []string // phases
		refused      bool
	}{
		{"limits of one node", "kind: cpu-limit, nodes: [server], cpus: 0.5", "kind: cpu-limit, nodes: [server], cpus: 0.2", broken, broken, true},
		{"a limit within another", "kind: cpu-limit, nodes: [server], cpus: 0.5", "kind: cpu-limit, nodes: [server], cpus: 0.2", []string{"before", "broken", "after"}, broken, true},
		{"a limit as another ends", "kind: cpu-limit, nodes: [server], cpus: 0.5", "kind: cpu-limit, nodes: [server], cpus: 0.2", broken, after, true},
		{"limits with a phase between", "kind: cpu-limit, nodes: [server], cpus: 0.5", "kind: cpu-limit, nodes: [server], cpus: 0.2", before, after, false},
		{"one limit in several phases", "kind: cpu-limit, nodes: [server], cpus: 0.5", "kind: cpu-limit, nodes: [store], cpus: 0.2", []string{"before", "broken"}, []string{"broken", "after"}, false},
		{"a node in the patterns of both", "kind: cpu-limit, nodes: ['s*'], cpus: 0.5", "kind: cpu-limit, nodes: [other, store], cpus: 0.2", broken, broken, true},
		{"other kinds of limits", "kind: cpu-limit, nodes: [server], cpus: 0.5", "kind: memory-limit, nodes: [server], memory: 64m", broken, broken, false},
		{"limits of one host", "kind: memory-limit, hosts: [host-1], memory: 96m", "kind: memory-limit, hosts: ['host-*'], memory: 64m", broken, broken, true},
		{"limits of a host and of a node on it", "kind: memory-limit, hosts: [host-1], memory: 96m", "kind: memory-limit, nodes: [store], memory: 64m", broken, broken, false},
		{"hogs of one host", "kind: cpu-hog, hosts: [host-1], cores: 0.3", "kind: cpu-hog, hosts: [host-1], cores: 0.2", broken, broken, true},
		{"leaks of one host", "kind: memory-leak, hosts: [host-1], per_second: 4MB", "kind: memory-leak, hosts: [host-1], per_second: 2MB", []string{"broken", "after"}, broken, true},
		{"deaths of one node", "kind: kill, nodes: [server]", "kind: restart, nodes: [server]", broken, broken, true},
		{"deaths of two nodes", "kind: kill, nodes: [server]", "kind: restart, nodes: [store]", broken, broken, false},
		{"a pause in a crash loop", "kind: crash-loop, nodes: ['s*']", "kind: pause, nodes: [store]", broken, broken, true},
		{"a death and a limit", "kind: kill, nodes: [server]", "kind: cpu-limit, nodes: [server], cpus: 0.2", broken, broken, false},
		// These kill, but bring nothing back.
		{"a death on a leaking host", "kind: memory-leak, hosts: [host-1], per_second: 4MB", "kind: kill, nodes: [store]", broken, broken, false},
		{"a death under a memory limit", "kind: memory-limit, nodes: [store], memory: 64m", "kind: restart, nodes: [store]", []string{"before", "broken"}, broken, false},
		{"shares of one operation", "kind: malformed, node: players, operation: ask, percent: 50%", "kind: malformed, node: players, operation: ask, percent: 20%", broken, []string{"broken", "after"}, true},
		{"a share of more", "kind: malformed, node: players, operation: ask, percent: 50%", "kind: surge, node: players, operation: ask, times: 3", broken, broken, false},
		{"factors of one operation", "kind: surge, node: players, operation: ask, times: 4", "kind: surge, node: players, operation: ask, times: 3", broken, broken, false},
		{"waves of one generator", "kind: reconnect-wave, node: players, every: 1s", "kind: reconnect-wave, node: players, every: 2s", broken, broken, true},
		{"redirects of one target", "kind: redirect, node: players, from: server, to: store", "kind: redirect, node: players, from: server, to: other", broken, broken, true},
		{"a redirect on from where another leads", "kind: redirect, node: players, from: server, to: store", "kind: redirect, node: players, from: store, to: other", broken, broken, true},
		{"a redirect to what another leads from", "kind: redirect, node: players, from: store, to: other", "kind: redirect, node: players, from: server, to: store", broken, broken, true},
		{"redirects to one target", "kind: redirect, node: players, from: server, to: other", "kind: redirect, node: players, from: store, to: other", broken, broken, false},
		{"skews to one node", "kind: skew, node: other, to: store, share: 70%", "kind: skew, node: other, to: store, share: 80%", broken, after, true},
		{"skews to two nodes", "kind: skew, node: other, to: store, share: 70%", "kind: skew, node: other, to: server, share: 80%", broken, broken, false},
		{"losses of one fleet", "kind: capacity-loss, node: other, share: 40%", "kind: capacity-loss, node: other, share: 20%", broken, broken, true},
		{"losses of two clusters of a fleet", "kind: capacity-loss, node: other, share: 40%, cluster: main", "kind: capacity-loss, node: other, share: 20%, cluster: side", broken, after, true},
		{"losses with a phase between", "kind: capacity-loss, node: other, share: 40%", "kind: capacity-loss, node: other, share: 20%", before, after, false},
		// Each adds to the link and takes away what it added.
		{"delays of one link", `kind: latency, links: ["players -> server"], latency: 20ms`, `kind: latency, links: ["players -> server"], latency: 50ms`, broken, broken, false},
		{"a load generator that dies", `kind: latency, links: ["players -> server"], latency: 20ms`, "kind: crash-loop, nodes: [players]", broken, broken, true},
		{"a load generator that has nothing to do", `kind: latency, links: ["players -> server"], latency: 20ms`, "kind: kill, nodes: [guests]", broken, broken, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			held := func(phase string) string {
				var out []string
				if slices.Contains(tc.heldA, phase) {
					out = append(out, "a")
				}
				if slices.Contains(tc.heldB, phase) {
					out = append(out, "b")
				}
				return strings.Join(out, ", ")
			}
			fsys := machines(t, "{kind: latency, links: [\"server -> store\"], latency: 10ms}")
			text := edited(t, string(fsys[replays.FileName].Data),
				"{name: before, lasts: 4s, settle: 1s}", "{name: before, lasts: 4s, settle: 1s, faults: ["+held("before")+"]}",
				"faults: [slow, more, trouble]", "faults: ["+strings.TrimSuffix("slow, more, trouble, "+held("broken"), ", ")+"]",
				"{name: after, lasts: 4s, settle: 1s}", "{name: after, lasts: 4s, settle: 1s, faults: ["+held("after")+"]}",
				"faults:\n", "faults:\n  a: {"+tc.a+"}\n  b: {"+tc.b+"}\n",
				"dead: {kind: kill, nodes: [store]}", `dead: {kind: blackhole, links: ["server -> store"]}`)
			fsys[replays.FileName].Data = []byte(text)
			line := fsys["line/compose.yaml"]
			line.Data = bytes.Replace(line.Data, []byte("links: [server]"), []byte("links: [server, store, other]"), 1)
			line.Data = bytes.Replace(line.Data, []byte("services:\n"), []byte(`services:
  other:
    image: relapse
    command: [service, account]
    links: [server, store]
    expose: ["8080"]
    labels: {relapse.probe: tcp, relapse.front: "9091", relapse.fleet: "9092"}
  guests:
    image: relapse
    command: [service, players, --config=/etc/relapse/players.yaml]
    configs: [{source: players, target: /etc/relapse/players.yaml}]
    links: [server]
    expose: ["9091"]
    labels: {relapse.traffic: visit, relapse.probe: "http:/rates"}
`), 1)
			_, err := replays.Load(fsys, ".")
			var placed *topologies.FileError
			switch {
			case !tc.refused && err != nil:
				t.Errorf("refused: %v", err)
			case !tc.refused:
			case !errors.As(err, &placed):
				t.Errorf("error %v, want one with the place of fault b", err)
			default:
				if want := 1 + strings.Count(text[:strings.Index(text, "  b: {")], "\n"); placed.Line != want {
					t.Errorf("refused in line %d, want the one of fault b, %d: %v", placed.Line, want, err)
				}
			}
		})
	}
}
