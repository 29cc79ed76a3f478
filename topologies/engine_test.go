package topologies_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"relapse/topologies"
)

func TestNoEngine(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	tests := []struct{ name, host string }{
		{"nobody listens", "tcp://127.0.0.1:1"},
		{"no such socket", "unix:///nonexistent/engine.sock"},
		{"somebody listens and says nothing", "tcp://" + silent.Addr().String()},
		{"no address", "nonsense"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", test.host)
			began := time.Now()
			_, err := topologies.Preflight(t.Context())
			if !errors.Is(err, topologies.ErrNoEngine) {
				t.Errorf("Preflight: %v", err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %s to say so", took)
			}
			options := topologies.Options{Run: "no-engine"}
			if _, err := topologies.Start(t.Context(), pair(), options); !errors.Is(err, topologies.ErrNoEngine) {
				t.Errorf("Start: %v", err)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	topologies.RequireEngine(t)
	engine, err := topologies.Preflight(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if engine.Version == "" || engine.API == "" || engine.CPUs == 0 || engine.MemoryBytes == 0 || engine.Kernel == "" {
		t.Errorf("got %+v", engine)
	}
}

// required stands for a test and notes how it was ended.
type required struct{ ended string }

func (r *required) Helper()      {}
func (r *required) Skip(...any)  { r.ended = "skipped" }
func (r *required) Fatal(...any) { r.ended = "failed" }

func TestWhatIsRequiredFailsWhereItWasPromised(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/engine.sock")
	for what, require := range map[string]func(topologies.TB){"an engine": topologies.RequireEngine, "hosts": topologies.RequireHosts} {
		for ci, want := range map[string]string{"true": "failed", "": "skipped"} {
			t.Setenv("CI", ci)
			var r required
			require(&r)
			if r.ended != want {
				t.Errorf("%s, CI=%q: %s, want %s", what, ci, r.ended, want)
			}
		}
	}
}

func TestStartRefuses(t *testing.T) {
	tests := []struct {
		name    string
		options topologies.Options
	}{
		{"no run", topologies.Options{}},
		{"a run that is no name", topologies.Options{Run: "../etc"}},
		{"a proxy on no link", topologies.Options{Run: "x", Proxied: []topologies.Link{{Client: "store", Server: "front", Port: 1}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := topologies.Start(t.Context(), pair(), test.options); err == nil || errors.Is(err, topologies.ErrNoEngine) {
				t.Errorf("got %v", err)
			}
		})
	}
}
