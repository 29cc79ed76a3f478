package topologies_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"relapse/topologies"
)

// rigFolder holds the tests' own program, once one has asked for it.
var rigFolder string

// rigBinary builds it, static, once.
var rigBinary = sync.OnceValues(func() (string, error) {
	var err error
	if rigFolder, err = os.MkdirTemp("", "relapse-rig-"); err != nil {
		return "", err
	}
	path := filepath.Join(rigFolder, "rig")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "./testdata/rig")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the rig: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if rigFolder != "" {
		_ = os.RemoveAll(rigFolder)
	}
	os.Exit(code)
}

func rig(t *testing.T) string {
	t.Helper()
	topologies.RequireEngine(t)
	path, err := rigBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func server(name string, change func(*topologies.Node)) topologies.Node {
	node := topologies.Node{
		Name: name, Image: topologies.OwnImage, Command: []string{"serve"},
		Expose: []uint16{8080}, User: "65534:65534", ReadOnly: true, Tmpfs: []string{"/tmp"},
		StopGrace: time.Second,
		Probe:     topologies.Probe{Protocol: "http", Port: 8080, Path: "/ok"},
	}
	if change != nil {
		change(&node)
	}
	return node
}

// pair is a client and a server that it needs.
func pair() *topologies.Topology {
	return &topologies.Topology{
		Name: "pair",
		Nodes: []topologies.Node{
			server("front", func(n *topologies.Node) {
				n.DependsOn = []string{"store"}
				n.Files = []topologies.File{{Path: "/etc/front/front.conf", Content: []byte("as written\n"), Mode: 0o644}}
			}),
			server("store", func(n *topologies.Node) { n.CPUs, n.Memory = 0.5, 64<<20 }),
		},
		Links: []topologies.Link{{Client: "front", Server: "store", Port: 8080}},
	}
}

func runID(t *testing.T) string {
	return fmt.Sprintf("test-%d-%s", os.Getpid(), strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")))
}

func start(t *testing.T, topology *topologies.Topology, o topologies.Options) *topologies.System {
	t.Helper()
	o.Run, o.Binary = runID(t), rig(t)
	system, err := topologies.Start(t.Context(), topology, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := system.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if left := leftOf(t, o.Run); len(left) > 0 && !o.Keep {
			t.Errorf("left after Stop: %v", left)
		}
	})
	return system
}

// leftOf names everything on the machine that a run has made.
func leftOf(t *testing.T, run string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	docker, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	filters := make(client.Filters).Add("label", topologies.LabelRun+"="+run)
	containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		t.Fatal(err)
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, c := range containers.Items {
		left = append(left, "container "+c.Names[0])
	}
	for _, n := range networks.Items {
		left = append(left, "network "+n.Name)
	}
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		hosts, err := filepath.Glob(filepath.Join(pattern, "relapse-"+run+"@*"))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, hosts...)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err == nil && bytes.HasSuffix(command, []byte("\x00watchdog\x00"+run+"\x00")) {
			left = append(left, "watchdog "+path)
		}
	}
	if _, err := os.Stat(topologies.RunFolder(run)); err == nil {
		left = append(left, topologies.RunFolder(run))
	}
	return left
}

// isolated checks what the engine says of a run: a network without a way out,
// and not one port published.
func isolated(t *testing.T, run string) {
	t.Helper()
	docker, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	filters := make(client.Filters).Add("label", topologies.LabelRun+"="+run)
	networks, err := docker.NetworkList(t.Context(), client.NetworkListOptions{Filters: filters})
	if err != nil || len(networks.Items) != 1 || !networks.Items[0].Internal {
		t.Errorf("networks %+v, %v: want an internal one", networks.Items, err)
	}
	containers, err := docker.ContainerList(t.Context(), client.ContainerListOptions{Filters: filters})
	if err != nil || len(containers.Items) != 2 {
		t.Fatalf("%d containers, %v", len(containers.Items), err)
	}
	for _, c := range containers.Items {
		for _, port := range c.Ports {
			if port.PublicPort != 0 {
				t.Errorf("%s publishes %+v", c.Names[0], port)
			}
		}
	}
}

// eventually polls a named condition.
func eventually(t *testing.T, condition string, within time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, condition)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func instance(t *testing.T, system *topologies.System, node string) *topologies.Instance {
	t.Helper()
	i, err := system.Instance(node)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func get(t *testing.T, i *topologies.Instance, path string, query ...string) string {
	t.Helper()
	values := url.Values{}
	for n := 0; n < len(query); n += 2 {
		values.Set(query[n], query[n+1])
	}
	response, err := http.Get("http://" + i.Address().String() + ":8080" + path + "?" + values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestStartGivesWhatTheTopologySays(t *testing.T) {
	system := start(t, pair(), topologies.Options{})
	front, store := instance(t, system, "front"), instance(t, system, "store")
	link := system.Topology().Links[0]

	if got := get(t, front, "/file", "path", "/etc/front/front.conf"); got != "as written\n" {
		t.Errorf("file in the node: %q", got)
	}
	if got := get(t, front, "/lookup", "name", "store"); !strings.Contains(got, store.Address().String()) {
		t.Errorf("front finds store at %s, want %s", got, store.Address())
	}
	if got := get(t, front, "/write", "path", "/etc/new"); !strings.Contains(got, "read-only") {
		t.Errorf("writing into a read-only node: %s", got)
	}
	if got := get(t, front, "/write", "path", "/tmp/new"); got != "<nil>" {
		t.Errorf("writing into its tmpfs: %s", got)
	}
	status := get(t, front, "/file", "path", "/proc/self/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("process status lacks %q:\n%s", want, status)
		}
	}
	isolated(t, runID(t))
	conn, err := system.Dial(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 { // the connection stays usable
		if n, err := topologies.Exchange(t.Context(), conn, store.Node().Probe); err != nil || n == 0 {
			t.Errorf("exchange over the link: %d bytes, %v", n, err)
		}
	}
	if _, err := system.Dial(t.Context(), topologies.Link{Client: "store", Server: "front", Port: 8080}); err == nil {
		t.Error("dialled a link that is not there")
	}
	if _, err := system.Instance("nobody"); err == nil {
		t.Error("found a node that is not there")
	}
	if system.Relay() != nil {
		t.Error("a relay without a proxied link")
	}
	images := system.Images()
	if len(images) != 1 || images[0].Source != topologies.ImageOwn || images[0].Digest == "" {
		t.Errorf("images: %+v", images)
	}
	var log bytes.Buffer
	if err := front.Logs(t.Context(), &log); err != nil || !strings.Contains(log.String(), "serving") {
		t.Errorf("log %q, %v", log.String(), err)
	}
	if err := system.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := system.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

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
	if left := leftOf(t, run); len(left) != 4 {
		t.Errorf("kept %v, want two containers, a network and the folder", left)
	}
	if _, err := topologies.Sweep(t.Context(), topologies.Abandoned); err != nil {
		t.Fatal(err)
	}
	if left := leftOf(t, run); len(left) != 4 {
		t.Errorf("after a sweep of abandoned runs only %v is left", left)
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

func TestANodeThatDoesNotComeUp(t *testing.T) {
	tests := []struct {
		name    string
		command string
		ended   bool
		exit    int
		want    []string
	}{
		{"ends", "crash", true, 7, []string{"node store", "exit code 7", "port 8080", "about to crash", "crashed as told"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topology := pair()
			topology.Nodes[1].Command = []string{test.command}
			run := runID(t)
			_, err := topologies.Start(t.Context(), topology, topologies.Options{Run: run, Binary: rig(t)})
			var failure *topologies.NotReadyError
			if !errors.As(err, &failure) {
				t.Fatalf("got %v", err)
			}
			if failure.Node != "store" || failure.Ended != test.ended || failure.Exit != test.exit {
				t.Errorf("got %+v", failure)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
			if left := leftOf(t, run); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	topology := pair()
	topology.Nodes[1].Command = []string{"mute"}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	run := runID(t)
	_, err := topologies.Start(ctx, topology, topologies.Options{Run: run, Binary: rig(t)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if left := leftOf(t, run); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAHostLimitsItsNodesTogether(t *testing.T) {
	rig(t)
	if os.Getuid() != 0 {
		t.Skip("making a parent cgroup needs root")
	}
	topology := pair()
	topology.Hosts = []topologies.Host{{Name: "machine", Memory: 100 << 20, CPUs: 0.5}}
	topology.Nodes[0].Host, topology.Nodes[1].Host = "machine", "machine"
	topology.Nodes[1].CPUs = 0
	system := start(t, topology, topologies.Options{})
	cgroups := get(t, instance(t, system, "store"), "/file", "path", "/proc/self/mountinfo")
	if want := topologies.HostCgroup(runID(t), "machine"); !strings.Contains(cgroups, want+"/") {
		t.Errorf("store is not in %s:\n%s", want, cgroups)
	}
	used := instance(t, system, "store")
	if _, err := used.Usage(); err != nil {
		t.Error(err)
	}
}
