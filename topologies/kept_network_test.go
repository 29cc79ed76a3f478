package topologies_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"relapse/topologies"
)

// TestANetworkThatTheEngineKeeps stands in for an engine: none can be made to lose
// count of its endpoints.
func TestANetworkThatTheEngineKeeps(t *testing.T) {
	for _, c := range []struct {
		name       string
		containers string // of the network, as the engine has them
		kept       []string
		failed     bool
	}{
		{"without containers", `{}`, []string{"relapse-a"}, false},
		{"with a container", `{"c1": {"Name": "somebody's"}}`, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			network := `{"Name": "relapse-a", "Id": "n1", "Labels": {"relapse.run": "a"}, "Containers": ` + c.containers + `}`
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch _, path, _ := strings.Cut(r.URL.Path, "/v1.41"); {
				case r.Method == http.MethodDelete && path == "/networks/n1":
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprint(w, `{"message": "network relapse-a id n1 has active endpoints"}`)
				case path == "/networks":
					fmt.Fprintf(w, "[%s]", network)
				case path == "/networks/n1":
					fmt.Fprint(w, network)
				case path == "/containers/json":
					fmt.Fprint(w, "[]")
				default:
					t.Errorf("asked for %s %s", r.Method, r.URL.Path)
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			defer engine.Close()
			docker, err := client.New(client.WithHost("tcp://"+engine.Listener.Addr().String()), client.WithAPIVersion("1.41"))
			if err != nil {
				t.Fatal(err)
			}
			defer docker.Close()
			swept, err := topologies.SweepEngine(t.Context(), docker)
			if (err != nil) != c.failed {
				t.Errorf("have error %v, want one: %v", err, c.failed)
			}
			if !slices.Equal(swept.Kept, c.kept) {
				t.Errorf("have %q kept, want %q", swept.Kept, c.kept)
			}
			if said := swept.StillThere(); (said != "") != (c.kept != nil) {
				t.Errorf("have %q said", said)
			}
		})
	}
}
