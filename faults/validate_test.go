package faults_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/faults"
	"relapse/topologies"
)

func TestValidateRefuses(t *testing.T) {
	const link = "links: [a -> b]\n"
	for _, tc := range []struct{ name, kind, have, field, want string }{
		{"no links", "refuse", "", "links", `links is missing: write links: ["nginx-* -> memcached"]`},
		{"empty links", "refuse", "links: []", "links", `links is missing: write links: ["nginx-* -> memcached"]`},
		{"link without an arrow", "blackhole", "links: [nginx]", "links", `links has the malformed pattern "nginx": write it like "nginx-* -> memcached"`},
		{"link with half an end", "reset", `links: ["a -> b", "a -> "]`, "links", `links has the malformed pattern "a -> ": write it like "nginx-* -> memcached"`},
		{"link with a broken range", "loss", `links: ["a -> [b"]`, "links", `links has the malformed pattern "a -> [b": write it like "nginx-* -> memcached"`},
		{"no nodes", "pause", "", "nodes", `nodes is missing: write nodes: ["memcached-*"]`},
		{"node with a broken range", "kill", "nodes: ['[a']", "nodes", `nodes has the malformed pattern "[a": write it like "memcached-*"`},
		{"latency missing", "latency", link, "latency", "latency is missing or zero: write latency: 100ms"},
		{"latency zero", "latency", link + "latency: 0s", "latency", "latency is missing or zero: write latency: 100ms"},
		{"latency negative", "latency", link + "latency: -1s", "latency", "latency is -1s: below 5ms it could not be told from noise: write latency: 100ms"},
		{"latency too short to be seen", "latency", link + "latency: 1ms", "latency", "latency is 1ms: below 5ms it could not be told from noise: write latency: 100ms"},
		{"jitter missing", "jitter", link + "latency: 10ms", "jitter", "jitter is missing or zero: write jitter: 100ms"},
		{"jitter negative", "jitter", link + "latency: 10ms\njitter: -1ms", "jitter", "jitter is -1ms: below 5ms it could not be told from noise: write jitter: 100ms"},
		{"jitter above its latency", "jitter", link + "latency: 10ms\njitter: 20ms", "latency", "latency is 10ms, less than the jitter of 20ms: a delay cannot be below zero: write latency: 20ms or more"},
		{"rate missing", "bandwidth", link, "rate", "rate is missing or zero: write rate: 2.5Mbit, or use the kind blackhole to let nothing through"},
		{"rate negative", "bandwidth", link + "rate: -2Mbit", "rate", "rate is -2Mbit: it must be 1kB (8kbit) or more: write rate: 2.5Mbit"},
		{"rate too low", "bandwidth", link + "rate: 999B", "rate", "rate is 7.992kbit: it must be 1kB (8kbit) or more: write rate: 2.5Mbit"},
		{"rate beyond any link", "bandwidth", link + "rate: 101Gbit", "rate", "rate is 101Gbit: no link here carries 100Gbit, so that it could not bite: write rate: 2.5Mbit"},
		{"rate beyond any number", "bandwidth", link + "rate: 1e308GB", "rate", `rate "1e308GB" is not a rate: write a number and bit, kbit, Mbit, Gbit, B, kB, MB or GB (per second): 2.5Mbit, 300kB`},
		{"rate that is no number", "bandwidth", link + "rate: NaNMbit", "rate", `rate "NaNMbit" is not a rate: write a number and bit, kbit, Mbit, Gbit, B, kB, MB or GB (per second): 2.5Mbit, 300kB`},
		{"loss missing", "loss", link, "percent", "percent is missing or zero: write percent: 2%"},
		{"loss negative", "loss", link + "percent: -2%", "percent", "percent is -2%: less than 0.1% cannot be seen within a second: write percent: 2%"},
		{"loss too rare to be seen", "loss", link + "percent: 0.01%", "percent", "percent is 0.01%: less than 0.1% cannot be seen within a second: write percent: 2%"},
		{"loss of nearly all", "loss", link + "percent: 99%", "percent", "percent is 99%, above 50%: hardly a connection would come about: use the kind blackhole to lose everything"},
		{"cap missing", "connection-cap", link, "connections", "connections is missing or zero: write connections: 20, or use the kind refuse to let none in"},
		{"cap negative", "connection-cap", link + "connections: -1", "connections", "connections must be above zero: write connections: 20"},
		{"cap too high to be looked at", "connection-cap", link + "connections: 5000", "connections", "connections is 5000: a look would have to open more than 1000 connections: write connections: 1000 or less"},
		{"restart before its death", "restart", "nodes: [a]\nafter: -1s", "after", "after must not be below zero: write after: 500ms, or leave it out to start at once"},
		{"crash loop without nodes", "crash-loop", "", "nodes", `nodes is missing: write nodes: ["memcached-*"]`},
		{"crash loop without a life", "crash-loop", "nodes: [a]\nup: 0s", "up", "up is 0s: a life of less than 100ms is none: write up: 2s, or use the kind kill for a node that stays dead"},
		{"crash loop with a life too short", "crash-loop", "nodes: [a]\nup: 50ms", "up", "up is 50ms: a life of less than 100ms is none: write up: 2s, or use the kind kill for a node that stays dead"},
		{"pause loop without nodes", "pause-loop", "", "nodes", `nodes is missing: write nodes: ["memcached-*"]`},
		{"pause loop that nobody sees", "pause-loop", "nodes: [a]\npause: 499ms", "pause", "pause is 499ms: less than 500ms cannot be seen from outside: write pause: 1s"},
		{"pause loop that is a pause", "pause-loop", "nodes: [a]\nrun: 50ms", "run", "run is 50ms: less than 100ms is one long pause: write run: 2s, or use the kind pause for a node that stands still all the time"},
		{"crash loop that starts before its death", "crash-loop", "nodes: [a]\ndown: -1s", "down", "down must not be below zero: write down: 1s, or down: 0s to start at once"},
		{"partition of nothing", "partition", "", "sides", "sides is missing: write sides: [[euw-*], [eune-*]]"},
		{"partition of one side", "partition", "sides: [[a-*]]", "sides", "sides has 1 groups of nodes: there must be two: write sides: [[euw-*], [eune-*]]"},
		{"partition of three sides", "partition", "sides: [[a], [b], [c]]", "sides", "sides has 3 groups of nodes: there must be two: write sides: [[euw-*], [eune-*]]"},
		{"partition from nobody", "partition", "sides: [[a-*], []]", "sides", "sides has a group without nodes: write sides: [[euw-*], [eune-*]]"},
		{"partition with a broken range", "partition", "sides: [[a-*], ['[b']]", "sides", `sides has the malformed pattern "[b": write sides: [[euw-*], [eune-*]]`},
		{"partition of a port", "partition", "sides: [[a-*], ['b:80']]", "sides", `sides has the malformed pattern "b:80": write sides: [[euw-*], [eune-*]]`},
		{"partition of links", "partition", "sides: [['a -> c'], [b]]", "sides", `sides has the malformed pattern "a -> c": write sides: [[euw-*], [eune-*]]`},
		{"malformed without a node", "malformed", "operation: x\npercent: 50%", "node", "node is missing: write node: players"},
		{"malformed without an operation", "malformed", "node: p\npercent: 50%", "operation", "operation is missing: write operation: login"},
		{"malformed without a share", "malformed", "node: p\noperation: x", "percent", "percent is missing or zero: write percent: 25%"},
		{"malformed too rarely to be seen", "malformed", "node: p\noperation: x\npercent: 2%", "percent", "percent is 2%: less than 5% cannot be told from none within half a second: write percent: 25%"},
		{"malformed below zero", "malformed", "node: p\noperation: x\npercent: -20%", "percent", "percent is -20%: less than 5% cannot be told from none within half a second: write percent: 25%"},
		{"malformed more than all", "malformed", "node: p\noperation: x\npercent: 120%", "percent", "percent is 120%: it cannot be more than all of them: write percent: 100% or less"},
		{"wave without a node", "reconnect-wave", "every: 1s", "node", "node is missing: write node: players"},
		{"wave without a period", "reconnect-wave", "node: p", "every", "every is missing or zero: write every: 5s"},
		{"waves that run into each other", "reconnect-wave", "node: p\nevery: 100ms", "every", "every is 100ms: waves closer than 500ms could not be told apart: write every: 5s"},
		{"redirect without a node", "redirect", "from: a\nto: b", "node", "node is missing: write node: players"},
		{"redirect from nowhere", "redirect", "node: p\nto: b", "from", "from is missing: write from: edge-1"},
		{"redirect to nowhere", "redirect", "node: p\nfrom: a", "to", "to is missing: write to: edge-2"},
		{"redirect to where it comes from", "redirect", "node: p\nfrom: a\nto: a", "to", "to is a, as from is: nothing would move: name another target or a spare of the load generator"},
		{"skew without a node", "skew", "to: a\nshare: 70%", "node", "node is missing: write node: front"},
		{"skew to nowhere", "skew", "node: f\nshare: 70%", "to", "to is missing: write to: mms-1"},
		{"skew without a share", "skew", "node: f\nto: a", "share", "share is missing or zero: write share: 70%"},
		{"skew below zero", "skew", "node: f\nto: a\nshare: -70%", "share", "share is -70%: it cannot be less than none: write share: 70%"},
		{"skew of more than all", "skew", "node: f\nto: a\nshare: 120%", "share", "share is 120%: it cannot be more than all of them: write share: 100% or less"},
		{"cpus missing", "cpu-limit", "nodes: [a]", "cpus", "cpus is missing or zero: write cpus: 0.5 for half a core"},
		{"cpus negative", "cpu-limit", "nodes: [a]\ncpus: -1", "cpus", "cpus is -1: it must be 0.01 or more: write cpus: 0.5 for half a core"},
		{"cpus below the kernel's least", "cpu-limit", "nodes: [a]\ncpus: 0.001", "cpus", "cpus is 0.001: it must be 0.01 or more: write cpus: 0.5 for half a core"},
		{"cpus that are no number", "cpu-limit", "nodes: [a]\ncpus: .nan", "cpus", "cpus is NaN: it must be 0.01 or more: write cpus: 0.5 for half a core"},
		{"no hosts", "cpu-hog", "cores: 0.3", "hosts", `hosts is missing: write hosts: ["host-*"]`},
		{"host with a broken range", "memory-leak", "hosts: ['[a']\nper_second: 4MB", "hosts", `hosts has the malformed pattern "[a": write it like "host-*"`},
		{"leak missing", "memory-leak", "hosts: [a]\nper_connection: 1kB", "per_second", "per_second is missing or zero: write per_second: 2MB"},
		{"leak too slow to be seen", "memory-leak", "hosts: [a]\nper_second: 90kB", "per_second", "per_second is 720kbit: less than 256kB (2.048Mbit) could not be told from what nodes write: write per_second: 2MB"},
		{"leak negative", "memory-leak", "hosts: [a]\nper_second: -4MB", "per_second", "per_second is -32Mbit: less than 256kB (2.048Mbit) could not be told from what nodes write: write per_second: 2MB"},
		{"leak beyond what can be written", "memory-leak", "hosts: [a]\nper_second: 69GB", "per_second", "per_second is 552Gbit: memory is not written faster than 549.8Gbit: write per_second: 2MB"},
		{"leak per connection beyond what can be written", "memory-leak", "hosts: [a]\nper_second: 4MB\nper_connection: 69GB", "per_connection", "per_connection is 552Gbit: memory is not written faster than 549.8Gbit: write per_connection: 2kB, or leave it out"},
		{"leak per connection negative", "memory-leak", "hosts: [a]\nper_second: 4MB\nper_connection: -1kB", "per_connection", "per_connection must not be below zero: write per_connection: 2kB, or leave it out"},
		{"hog missing", "cpu-hog", "hosts: [a]", "cores", "cores is missing or zero: write cores: 0.5 for half a core"},
		{"hog too small to be seen", "cpu-hog", "hosts: [a]\ncores: 0.01", "cores", "cores is 0.01: it must be 0.05 or more: write cores: 0.5 for half a core"},
		{"hog of more than any machine", "cpu-hog", "hosts: [a]\ncores: 1025", "cores", "cores is 1025: no machine here has more than 1024: write cores: 0.5 for half a core"},
		{"hog without end", "cpu-hog", "hosts: [a]\ncores: .inf", "cores", "cores is +Inf: it must be 0.05 or more: write cores: 0.5 for half a core"},
		{"hog that is no number", "cpu-hog", "hosts: [a]\ncores: .nan", "cores", "cores is NaN: it must be 0.05 or more: write cores: 0.5 for half a core"},
		{"limit of nobody", "memory-limit", "memory: 64m", "hosts", `hosts is missing, and so is nodes: write hosts: ["host-*"] or nodes: ["memcached-*"]`},
		{"limit of both", "memory-limit", "hosts: [a]\nnodes: [b]\nmemory: 64m", "nodes", "nodes stands beside hosts: a limit is of one or of the other: make two faults of it"},
		{"limit of a host with a broken range", "memory-limit", "hosts: ['[a']\nmemory: 64m", "hosts", `hosts has the malformed pattern "[a": write it like "host-*"`},
		{"limit of a node with a broken range", "memory-limit", "nodes: ['[a']\nmemory: 64m", "nodes", `nodes has the malformed pattern "[a": write it like "memcached-*"`},
		{"limit missing", "memory-limit", "hosts: [a]", "memory", "memory is missing or zero: write memory: 64m"},
		{"limit below the engine's least", "memory-limit", "hosts: [a]\nmemory: 512k", "memory", "memory is 512k: it must be 6m or more: write memory: 64m"},
		{"limit without a unit", "memory-limit", "hosts: [a]\nmemory: 64", "memory", `memory "64" is not a size: write a number and k, m or g, as in a compose file: 64m, 1g`},
		{"loss without a node", "capacity-loss", "share: 40%", "node", "node is missing: write node: fleet"},
		{"loss without a share", "capacity-loss", "node: f", "share", "share is missing or zero: write share: 40%"},
		{"loss below zero", "capacity-loss", "node: f\nshare: -40%", "share", "share is -40%: it cannot be less than none: write share: 40%"},
		{"loss of more than all", "capacity-loss", "node: f\nshare: 120%", "share", "share is 120%: it cannot be more than all of them: write share: 100% or less"},
		{"surge without a node", "surge", "operation: x\ntimes: 2", "node", "node is missing: write node: players"},
		{"surge without an operation", "surge", "node: p\ntimes: 2", "operation", "operation is missing: write operation: login"},
		{"surge without a factor", "surge", "node: p\noperation: x", "times", "times is missing or zero: write times: 12.5"},
		{"surge by less than can be seen", "surge", "node: p\noperation: x\ntimes: 1.1", "times", "times is 1.1: less than 1.2 cannot be told from chance: write times: 12.5"},
		{"surge without end", "surge", "node: p\noperation: x\ntimes: .inf", "times", "times is +Inf: less than 1.2 cannot be told from chance: write times: 12.5"},
		{"surge below zero", "surge", "node: p\noperation: x\ntimes: -3", "times", "times is -3: less than 1.2 cannot be told from chance: write times: 12.5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := faults.Decode(tc.kind, parameters(t, tc.have))
			if err == nil {
				err = f.Validate()
			}
			var field *faults.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("error %v, want a FieldError", err)
			}
			if field.Field != tc.field || field.Error() != tc.want {
				t.Errorf("field %s: %q\nwant  %s: %q", field.Field, field, tc.field, tc.want)
			}
			if field.Hint == "" {
				t.Error("nothing says what would be right")
			}
		})
	}
}

// TestNeverBites holds which faults are refused by the files alone, and on the edge of
// that, which are not.
func TestNeverBites(t *testing.T) {
	const size = "cluster: [main=a:80, side=b:80]\nservers: [main=100, side=3]\n"
	top := &topologies.Topology{
		Hosts: []topologies.Host{{Name: "host-1", Memory: 64 << 20}},
		Nodes: []topologies.Node{
			{Name: "a", Memory: 48 << 20, Host: "host-1", CPUs: 0.5}, {Name: "b", Host: "host-1"}, {Name: "c"}, {Name: "d"},
			{Name: "front"}, {Name: "narrow-front"},
			{Name: "fleet", Image: topologies.OwnImage, Command: []string{"service", "fleet", "--settings=/size.yaml"}, Files: []topologies.File{{Path: "/size.yaml", Content: []byte(size)}}},
			{Name: "unread-fleet", Image: topologies.OwnImage, Command: []string{"service", "fleet", "--settings=/none.yaml"}},
			{Name: "own-fleet", Image: "fleets:1", Command: []string{"--servers=main=3"}},
		},
		Links: []topologies.Link{
			{Client: "front", Server: "a", Port: 80}, {Client: "front", Server: "a", Port: 81}, {Client: "front", Server: "b", Port: 80},
			{Client: "front", Server: "c", Port: 80}, {Client: "front", Server: "d", Port: 80}, {Client: "narrow-front", Server: "a", Port: 80},
		},
	}
	for _, tc := range []struct {
		name, kind, have string
		held             time.Duration
		want             string // "" for one that may bite
	}{
		{"a loop that fits in", "crash-loop", "nodes: [a]\nup: 2s\ndown: 1s", 3001 * time.Millisecond, ""},
		{"a loop that does not", "crash-loop", "nodes: [a]\nup: 2s\ndown: 1s", 3 * time.Second, "up is 2s, with 1s from a death to a start: the fault is held for 3s, in which no node dies twice: write up: and down: that come to less than 3s together, hold the fault for longer, or use the kind restart for a single death"},
		{"a long life", "crash-loop", "nodes: [a]\nup: 1h", 10 * time.Second, "up is 1h0m0s: the fault is held for 10s, in which no node dies twice: write up: and down: that come to less than 10s together, hold the fault for longer, or use the kind restart for a single death"},
		{"a long death", "crash-loop", "nodes: [a]\ndown: 10s", 10 * time.Second, "down is 10s: the fault is held for 10s, in which no node dies twice: write up: and down: that come to less than 10s together, hold the fault for longer, or use the kind restart for a single death"},
		{"pauses that fit in", "pause-loop", "nodes: [a]\npause: 1s\nrun: 2s", 3001 * time.Millisecond, ""},
		{"pauses that do not", "pause-loop", "nodes: [a]\npause: 1s\nrun: 2s", 3 * time.Second, "run is 2s: the fault is held for 3s, in which no node stands still twice: write pause: and run: that come to less than 3s together, hold the fault for longer, or use the kind pause for a single one"},
		{"one long pause", "pause-loop", "nodes: [a]\npause: 10s", 10 * time.Second, "pause is 10s: the fault is held for 10s, in which no node stands still twice: write pause: and run: that come to less than 10s together, hold the fault for longer, or use the kind pause for a single one"},
		{"times that no clock holds together", "crash-loop", "nodes: [a]\nup: 2562047h\ndown: 2562047h", time.Hour, "up is 2562047h0m0s: the fault is held for 1h0m0s, in which no node dies twice: write up: and down: that come to less than 1h0m0s together, hold the fault for longer, or use the kind restart for a single death"},
		{"a restart at once", "restart", "nodes: [a]", time.Second, ""},
		{"a restart in time", "restart", "nodes: [a]\nafter: 900ms", time.Second, ""},
		{"a restart that never comes", "restart", "nodes: [a]\nafter: 1s", time.Second, "after is 1s: the fault is held for 1s, in which the node is not started again: write after: with less than 1s, hold the fault for longer, or use the kind kill for a node that stays dead"},
		{"a skew above even", "skew", "node: front\nto: a\nshare: 30%", time.Second, ""},
		{"a skew as even", "skew", "node: front\nto: a\nshare: 25%", time.Second, "share is 25%: front is linked to 4 nodes, so that a gets 25% or more without a skew, and less than 30% could not be told from that: write share: 30% or more"},
		{"a skew below even", "skew", "node: front\nto: a\nshare: 10%", time.Second, "share is 10%: front is linked to 4 nodes, so that a gets 25% or more without a skew, and less than 30% could not be told from that: write share: 30% or more"},
		{"a skew of one node", "skew", "node: narrow-front\nto: a\nshare: 100%", time.Second, "share is 100%: a is the only node that narrow-front is linked to, and gets all requests without a skew: link narrow-front to a second node, in a route with the first"},
		{"a loss of a cluster", "capacity-loss", "node: fleet\nshare: 34%\ncluster: side", time.Second, ""},
		{"a loss of one server of all", "capacity-loss", "node: fleet\nshare: 1%", time.Second, ""},
		{"a loss of no server", "capacity-loss", "node: fleet\nshare: 33%\ncluster: side", time.Second, "share is 33%: of 3 servers that is less than one: write share: 33.34% or more"},
		{"a loss of another cluster", "capacity-loss", "node: fleet\nshare: 40%\ncluster: mian", time.Second, "cluster is mian: fleet has no cluster of that name: did you mean main?"},
		{"a loss of a cluster like no other", "capacity-loss", "node: fleet\nshare: 40%\ncluster: europe", time.Second, "cluster is europe: fleet has no cluster of that name: it has main, side"},
		{"a loss that the fleet will tell of", "capacity-loss", "node: unread-fleet\nshare: 1%\ncluster: mian", time.Second, ""},
		{"a loss that another fleet will tell of", "capacity-loss", "node: own-fleet\nshare: 1%\ncluster: mian", time.Second, ""},
		{"memory below a node's", "memory-limit", "nodes: [a]\nmemory: 47m", time.Second, ""},
		{"memory as a node has", "memory-limit", "nodes: [a]\nmemory: 48m", time.Second, "memory is 48m: node a has no more than 48m already by its own limit, so that it takes nothing away: write memory: with less than 48m"},
		{"memory as a node's host has", "memory-limit", "nodes: [b]\nmemory: 1g", time.Second, "memory is 1g: node b has no more than 64m already by host host-1, so that it takes nothing away: write memory: with less than 64m"},
		{"memory of the machine", "memory-limit", "nodes: [c]\nmemory: 1t", time.Second, ""},
		{"memory of no machine", "memory-limit", "nodes: [c]\nmemory: 512t", time.Second, "memory is 512t: no machine here has more than 64t, so that it takes nothing away: write memory: 64m"},
		{"cores below a node's", "cpu-limit", "nodes: [a]\ncpus: 0.4", time.Second, ""},
		{"cores as a node has", "cpu-limit", "nodes: ['*']\ncpus: 0.5", time.Second, "cpus is 0.5: node a has no more than 0.5 cores already, so that it takes nothing away: write cpus: with less than 0.5"},
		{"cores of the machine", "cpu-limit", "nodes: [c]\ncpus: 64", time.Second, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			foreseen, ok := decoded(t, tc.kind, tc.have).(faults.ForeseeableFault)
			if !ok {
				t.Fatal("the kind foresees nothing")
			}
			have := ""
			if never := foreseen.NeverBites(top, tc.held); never != nil {
				have = never.Error()
				if never.Hint == "" {
					t.Error("nothing says what would be right")
				}
			}
			if have != tc.want {
				t.Errorf("have %q\nwant %q", have, tc.want)
			}
		})
	}
}

// TestExamplesBite holds that no kind refuses its example in the rig that the contract
// suite arms it in.
func TestExamplesBite(t *testing.T) {
	rig, err := topologies.Load(t.Context(), os.DirFS("testdata"), "rig")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range faults.Kinds() {
		if f, ok := decoded(t, k.Name, k.Example).(faults.ForeseeableFault); ok {
			if never := f.NeverBites(rig, 4*time.Second); never != nil {
				t.Errorf("%s: %v", k.Name, never)
			}
		}
	}
}

func TestStops(t *testing.T) {
	want := map[string]bool{"crash-loop": true, "kill": true, "pause": true, "pause-loop": true, "restart": true, "memory-leak": true, "memory-limit": true}
	for _, k := range faults.Kinds() {
		f, err := faults.Decode(k.Name, parameters(t, k.Example))
		if err != nil {
			t.Fatal(err)
		}
		s, ok := f.(faults.Stopper)
		if got := ok && s.Stops(); got != want[k.Name] {
			t.Errorf("%s stops its nodes: %t, want %t", k.Name, got, want[k.Name])
		}
	}
}

func TestReference(t *testing.T) {
	var got bytes.Buffer
	if err := faults.Reference(&got); err != nil {
		t.Fatal(err)
	}
	const golden = "README.md"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("README.md is not what the kinds say; run `go test ./faults -run TestReference -update`:\n%s", d)
	}
}
