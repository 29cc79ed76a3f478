package topologies_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"relapse/topologies"
)

func TestStopAfterTheContextEnded(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	if err := instance(t, system, "store").Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := system.Stop(ended); err != nil {
		t.Fatal(err)
	}
}

func TestKeepLeavesEverythingForASweep(t *testing.T) {
	system := start(t, pair(), topologies.Options{Keep: true})
	run := runID(t)
	ours := func(labels map[string]string) bool { return labels[topologies.LabelRun] == run }
	t.Cleanup(func() {
		if _, err := topologies.Sweep(context.Background(), ours); err != nil {
			t.Error(err)
		}
	})
	if err := system.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := leftOf(t, run)
	for what, want := range map[string]int{"container ": 2, "network ": 1, topologies.RunFolder(run): 1} {
		n := 0
		for _, left := range kept {
			if strings.HasPrefix(left, what) {
				n++
			}
		}
		if n != want {
			t.Errorf("kept %v, want two containers, a network and the folder", kept)
		}
	}
	if _, err := topologies.Sweep(t.Context(), topologies.Abandoned); err != nil {
		t.Fatal(err)
	}
	if left := leftOf(t, run); len(left) != len(kept) {
		t.Errorf("after a sweep of abandoned runs only %v is left of %v", left, kept)
	}
	swept, err := topologies.Sweep(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	if swept.Containers != 2 || swept.Networks != 1 || len(swept.Runs) != 1 {
		t.Errorf("swept %+v", swept)
	}
	if left := leftOf(t, run); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestAKilledToolLeavesNothing(t *testing.T) {
	binary := rig(t)
	both := pair()
	if os.Getuid() == 0 { // else there are no hosts to leave behind
		both.Hosts = []topologies.Host{{Name: "machine", Memory: 200 << 20}}
		both.Nodes[0].Host, both.Nodes[1].Host = "machine", "machine"
	}
	topology, err := json.Marshal(both)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "topology.json")
	if err := os.WriteFile(file, topology, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		after time.Duration // after it began; 0: once it has started
	}{
		{"at once", time.Millisecond},
		{"before the network", 60 * time.Millisecond},
		{"while creating", 150 * time.Millisecond},
		{"while starting", 400 * time.Millisecond},
		{"when started", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			run := strings.ReplaceAll(runID(t), "_", "-")
			tool := exec.Command(binary, "start", run, file)
			var failure bytes.Buffer
			tool.Stderr = &failure
			out, err := tool.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := tool.Start(); err != nil {
				t.Fatal(err)
			}
			want := "starting"
			if test.after == 0 {
				want = "started"
			}
			awaitLine(t, out, want, &failure)
			time.Sleep(test.after)
			if err := tool.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = tool.Wait()
			// Twice in a row over a second, since the engine may still be at it.
			var cleanSince time.Time
			eventually(t, "nothing of the run is left", 10*time.Second, func() bool {
				if len(leftOf(t, run)) > 0 {
					cleanSince = time.Time{}
				} else if cleanSince.IsZero() {
					cleanSince = time.Now()
				}
				return !cleanSince.IsZero() && time.Since(cleanSince) > time.Second
			})
		})
	}
}

func awaitLine(t *testing.T, from io.Reader, want string, failure *bytes.Buffer) {
	t.Helper()
	var seen []byte
	buffer := make([]byte, 256)
	for !bytes.Contains(seen, []byte(want+"\n")) {
		n, err := from.Read(buffer)
		seen = append(seen, buffer[:n]...)
		if err != nil {
			t.Fatalf("the tool said %q and not %q: %v: %s", seen, want, err, failure)
		}
	}
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	topology := pair()
	topology.Nodes[1].Command = []string{"mute"}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	run := runID(t)
	_, err := topologies.Start(ctx, topology, topologies.Options{Run: run, Binary: rig(t), Driver: driver()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if left := leftOf(t, run); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
