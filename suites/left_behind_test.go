package suites_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"relapse/topologies"
)

// leftBehind tells what the plays of a run have left, and removes what can be
// removed. [topologies.Clean] would see none of it: it spares the runs of tools that
// are alive, and this suite is one. A network that the engine keeps counts, though
// only a restart of the engine removes it: no play before these has one of its name.
func leftBehind(ctx context.Context, run string) (topologies.Swept, error) {
	return topologies.Sweep(ctx, func(labels map[string]string) bool { return playOf(run, labels[topologies.LabelRun]) })
}

// expectNothingLeft holds that the plays of a run have left nothing on the machine.
func expectNothingLeft(ctx context.Context, run string) {
	GinkgoHelper()
	cache, err := os.UserCacheDir()
	Expect(err).NotTo(HaveOccurred())
	outside, err := onMachine("/", cache, func(play string) bool { return playOf(run, play) })
	Expect(err).NotTo(HaveOccurred())
	Expect(outside).To(BeEmpty(), "what a play has left on the machine")
	left, err := leftBehind(ctx, run)
	Expect(err).NotTo(HaveOccurred())
	Expect(left).To(BeZero(), "what was swept should have been gone")
}

// Where the id of a run stands in what it makes.
var (
	runOfCgroup = regexp.MustCompile(`/relapse-([^/@]+)@`)
	runOfFolder = regexp.MustCompile(`/relapse/runs/([^/\s]+)`)
)

// onMachine names what is left of runs outside the engine: parent cgroups, processes in
// them, watchdogs, mounts of their files and the folders of those. Below root are the
// kernel's files, and cache is the user's folder for what can be made again.
func onMachine(root, cache string, ours func(run string) bool) ([]string, error) {
	var left []string
	find := func(pattern string, run func(path string) string, what string) error {
		paths, err := filepath.Glob(pattern)
		for _, path := range paths {
			if id := run(path); id != "" && ours(id) {
				left = append(left, what+" "+path)
			}
		}
		return err
	}
	of := func(form *regexp.Regexp) func(string) string {
		return func(text string) string {
			if m := form.FindStringSubmatch(text); m != nil {
				return m[1]
			}
			return ""
		}
	}
	hierarchies := filepath.Join(root, "sys/fs/cgroup")
	processes := filepath.Join(root, "proc/[0-9]*")
	// A process that ends while its files are read has left nothing.
	read := func(path string) string {
		content, _ := os.ReadFile(path)
		return string(content)
	}
	err := errors.Join(
		find(filepath.Join(hierarchies, "relapse-*@*"), of(runOfCgroup), "cgroup"),
		find(filepath.Join(hierarchies, "*", "relapse-*@*"), of(runOfCgroup), "cgroup"),
		find(filepath.Join(cache, "relapse/runs/*"), of(runOfFolder), "folder"),
		find(filepath.Join(processes, "cgroup"), func(path string) string { return of(runOfCgroup)(read(path)) }, "process"),
		find(filepath.Join(processes, "cmdline"), func(path string) string {
			words := strings.Split(strings.TrimSuffix(read(path), "\x00"), "\x00")
			if len(words) < 3 || words[len(words)-2] != "watchdog" {
				return ""
			}
			return words[len(words)-1]
		}, "watchdog"),
	)
	mounts, mountsErr := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	for line := range strings.Lines(string(mounts)) {
		if id := of(runOfFolder)(line); id != "" && ours(id) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	return left, errors.Join(err, mountsErr)
}

// TestOnMachine stands in for a kernel: what a run leaves there cannot be left on
// purpose.
func TestOnMachine(t *testing.T) {
	const run = "20260102t030405-77"
	for _, tc := range []struct {
		name  string
		files map[string]string // by path below the root; a path that ends in / is a folder
		want  []string          // of each its first word and its path
	}{
		{"nothing", nil, nil},
		{"a cgroup of version 1", map[string]string{"sys/fs/cgroup/memory/relapse-" + run + "@host-1/": ""}, []string{"cgroup sys/fs/cgroup/memory/relapse-" + run + "@host-1"}},
		{"a cgroup of version 2", map[string]string{"sys/fs/cgroup/relapse-" + run + "@/": ""}, []string{"cgroup sys/fs/cgroup/relapse-" + run + "@"}},
		{"a process in one", map[string]string{"proc/12/cgroup": "4:memory:/relapse-" + run + "@/abc\n0::/\n"}, []string{"process proc/12/cgroup"}},
		{"a watchdog", map[string]string{"proc/12/cmdline": "/bin/relapse\x00watchdog\x00" + run + "\x00"}, []string{"watchdog proc/12/cmdline"}},
		{"a folder", map[string]string{"cache/relapse/runs/" + run + "/labels.json": "{}"}, []string{"folder cache/relapse/runs/" + run}},
		{"a mount", map[string]string{"proc/self/mountinfo": "41 35 8:1 /root/.cache/relapse/runs/" + run + "/program /relapse ro - ext4 /dev/sda1 rw\n"},
			[]string{"mount 41 35 8:1 /root/.cache/relapse/runs/" + run + "/program /relapse ro - ext4 /dev/sda1 rw"}},
		{"what is of others", map[string]string{
			"sys/fs/cgroup/memory/relapse-20260102t030405-770@host-1/": "",
			"sys/fs/cgroup/memory/docker/":                             "",
			"proc/12/cgroup":                                           "4:memory:/relapse-20260102t030405-7@/abc\n",
			"proc/13/cmdline":                                          "/bin/relapse\x00watchdog\x0020260102t030405-7\x00",
			"proc/14/cmdline":                                          "sh\x00-c\x00grep watchdog " + run + "\x00",
			"cache/relapse/runs/20260102t030405-7/labels.json":         "{}",
			"cache/relapse/debian/" + run + "/":                        "",
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{"proc/self/mountinfo": "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n"}
			maps.Copy(files, tc.files)
			for name, content := range files {
				path := filepath.Join(root, name)
				folder := filepath.Dir(path)
				if strings.HasSuffix(name, "/") {
					folder = path
				}
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
				if folder == path {
					continue
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have, err := onMachine(root, filepath.Join(root, "cache"), func(id string) bool { return id == run })
			if err != nil {
				t.Fatal(err)
			}
			for n := range have {
				have[n] = strings.Replace(have[n], root+"/", "", 1)
			}
			if diff := cmp.Diff(tc.want, have); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
	if _, err := onMachine(t.TempDir(), t.TempDir(), func(string) bool { return true }); err == nil {
		t.Error("a root without a kernel's files: no error")
	}
}

// playOf says whether an id is that of a play of a run: the run's own with a number.
func playOf(run, play string) bool {
	number, ok := strings.CutPrefix(play, run+"-")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 32)
	return err == nil
}

// TestLeftBehind stands in for an engine: none can be made to keep a network.
func TestLeftBehind(t *testing.T) {
	const run = "20260102t030405-edge"
	for _, tc := range []struct {
		name      string
		container string // id of the play that has one; "" for none
		network   string // id of the play that has one; "" for none
		want      topologies.Swept
	}{
		{"nothing", "", "", topologies.Swept{}},
		{"what other runs have", "20260102t030404-edge-1", "20260102t030405-edge-colocation-1", topologies.Swept{}},
		{"a container", run + "-2", "", topologies.Swept{Runs: []string{run + "-2"}, Containers: 1}},
		{"a network", "", run + "-12", topologies.Swept{Runs: []string{run + "-12"}, Networks: 1}},
		{"a network that the engine keeps", "", run + "-2", topologies.Swept{Kept: []string{"relapse-" + run + "-2"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			labels := func(play string) string { return fmt.Sprintf(`{"%s": "%s"}`, topologies.LabelRun, play) }
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, path, versioned := strings.Cut(r.URL.Path, "/v1.41")
				if !versioned {
					path = r.URL.Path
				}
				network := fmt.Sprintf(`{"Name": "relapse-%s", "Id": "n1", "Labels": %s, "Containers": {}}`, tc.network, labels(tc.network))
				switch ask := r.Method + " " + path; {
				case path == "/_ping":
					w.Header().Set("Api-Version", "1.41")
				case ask == "GET /containers/json" && tc.container != "":
					fmt.Fprintf(w, `[{"Id": "c1", "Labels": %s}]`, labels(tc.container))
				case ask == "GET /networks" && tc.network != "":
					fmt.Fprintf(w, "[%s]", network)
				case ask == "GET /containers/json", ask == "GET /networks":
					fmt.Fprint(w, "[]")
				case ask == "GET /networks/n1":
					fmt.Fprint(w, network)
				case ask == "DELETE /containers/c1" && tc.want.Containers > 0, ask == "DELETE /networks/n1" && tc.want.Networks > 0:
					w.WriteHeader(http.StatusNoContent)
				case ask == "DELETE /networks/n1" && tc.want.Kept != nil:
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprint(w, `{"message": "it has active endpoints"}`)
				default: // what is none of the run's is left alone
					t.Errorf("asked to %s", ask)
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			defer engine.Close()
			t.Setenv("DOCKER_HOST", "tcp://"+engine.Listener.Addr().String())
			t.Setenv("DOCKER_API_VERSION", "1.41")
			t.Setenv("DOCKER_CERT_PATH", "")
			t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where folders of runs are
			have, err := leftBehind(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, have); diff != "" {
				t.Errorf("(-want +have)\n%s", diff)
			}
		})
	}
}
