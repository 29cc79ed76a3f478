package topologies_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
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

// rigVariable holds the path of one that is built already: see TestNodesAsProcesses.
const rigVariable = "RELAPSE_TEST_RIG"

// rigBinary builds it, static, once.
var rigBinary = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(rigVariable); built != "" {
		return built, nil
	}
	var err error
	if rigFolder, err = os.MkdirTemp("", "relapse-rig-"); err != nil {
		return "", err
	}
	path := filepath.Join(rigFolder, "rig")
	// As make build has it, so that packages are compiled once for both.
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./testdata/rig")
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
	if driver() == topologies.Docker {
		topologies.RequireEngine(t)
	}
	path, err := rigBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// driver is the one to be tested: processes where the test has been run again in
// namespaces.
func driver() topologies.Driver {
	if topologies.InNamespaces() {
		return topologies.Process
	}
	return topologies.Docker
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
	o.Run, o.Binary, o.Driver = runID(t), rig(t), driver()
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
	var left []string
	if driver() == topologies.Docker {
		left = leftOnEngine(t, run)
	} else {
		left = leftInNamespaces(t, run)
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

func leftOnEngine(t *testing.T, run string) []string {
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
	return left
}

// leftInNamespaces names the network interfaces beside the loopback, where nobody but
// the test makes one, and processes that are in the run's cgroups.
func leftInNamespaces(t *testing.T, run string) []string {
	t.Helper()
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && (strings.HasPrefix(i.Name, "relapse") || strings.HasPrefix(i.Name, "node")) {
			left = append(left, "network interface "+i.Name)
		}
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range groups {
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, []byte(topologies.HostCgroup(run, ""))) {
			left = append(left, "process "+path)
		}
	}
	return left
}

// isolated checks what the engine says of a run: a network without a way out,
// and not one port published.
func isolated(t *testing.T, run string) {
	t.Helper()
	if driver() == topologies.Process {
		return // a network of its own is all that there is
	}
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
	body, err := ask(i, path, query...)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// ask is get of a node that may die of the question.
func ask(i *topologies.Instance, path string, query ...string) (string, error) {
	values := url.Values{}
	for n := 0; n < len(query); n += 2 {
		values.Set(query[n], query[n+1])
	}
	response, err := http.Get("http://" + i.Address().String() + ":8080" + path + "?" + values.Encode())
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
