package suites_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"relapse/topologies"
)

// leftBehind tells what the plays of a run have left, and removes what can be
// removed. [topologies.Clean] would see none of it: it spares the runs of tools that
// are alive, and this suite is one. A network that the engine keeps counts, though
// only a restart of the engine removes it: no play before these has one of its name.
func leftBehind(ctx context.Context, run string) (topologies.Swept, error) {
	return topologies.Sweep(ctx, func(labels map[string]string) bool { return playOf(run, labels[topologies.LabelRun]) })
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
