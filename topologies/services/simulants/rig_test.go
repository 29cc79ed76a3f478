package simulants_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"relapse/topologies/services/polltest"
	"relapse/topologies/services/simulants"
)

// hurried is a configuration in which a minute is a second: a heartbeat every quarter
// of one, and no scenarios.
const hurried = `
seed: 7
speed: 60
players: 1000
ranges: 16
login_rate: 4000
login_again: 50ms
scenarios: {match: 0s, buy: 0s, skin: 0s}
think: 1s
retry_after: 20ms
match: {ask: 2s, ask_playing: 5s, granted_within: 200ms}
`

func config(t testing.TB, target string, changes ...string) simulants.Config {
	t.Helper()
	documents := [][]byte{[]byte(hurried), fmt.Appendf(nil, "target: %s", target)}
	for _, change := range changes {
		if change != "" {
			documents = append(documents, []byte(change))
		}
	}
	c, err := simulants.ParseConfig(documents...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run plays until the test ends, or until stop is called, which waits for the end.
func run(t testing.TB, c simulants.Config, ranges simulants.Ranges) (h *simulants.Harness, stop func()) {
	t.Helper()
	h, err := simulants.New(t.Context(), c, ranges)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := h.Run(ctx); err != nil {
			t.Errorf("harness: %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return h, stop
}

func order(t testing.TB, h *simulants.Harness, rates map[string]float64) {
	t.Helper()
	if err := h.SetRates(rates); err != nil {
		t.Fatal(err)
	}
}

// play has so many players sign in.
func play(t testing.TB, h *simulants.Harness, n float64) {
	t.Helper()
	order(t, h, map[string]float64{"players": n})
	eventually(t, fmt.Sprintf("%v players have signed in", n), func() bool { return signedIn(t, h) == n })
}

// sum adds up the metrics of a name whose labels are these, if they are given: "op",
// "buy", "outcome", "ok". None at all is an error.
func sum(t testing.TB, h *simulants.Harness, name string, labels ...string) (total float64) {
	t.Helper()
	families, err := h.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if !has(m, labels) {
				continue
			}
			found = true
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if !found {
		t.Fatalf("no metric %s{%s}", name, strings.Join(labels, " "))
	}
	return total
}

// seconds adds up what the histograms of a name have observed.
func seconds(t testing.TB, h *simulants.Harness, name string, labels ...string) (total float64) {
	t.Helper()
	families, err := h.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && has(m, labels) {
				total += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return total
}

func has(m *dto.Metric, labels []string) bool {
	for n := 0; n < len(labels); n += 2 {
		there := false
		for _, l := range m.GetLabel() {
			there = there || l.GetName() == labels[n] && l.GetValue() == labels[n+1]
		}
		if !there {
			return false
		}
	}
	return true
}

// signedIn is how many players are there and have signed in.
func signedIn(t testing.TB, h *simulants.Harness) float64 {
	t.Helper()
	return sum(t, h, "relapse_players") - sum(t, h, "relapse_players", "state", "signing_in")
}

// ask makes a request and gives the status.
func ask(t testing.TB, method, url, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

var eventually = polltest.Eventually
