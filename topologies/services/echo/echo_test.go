package echo_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"relapse/topologies/services"
	"relapse/topologies/services/echo"
)

func TestRunRefusesMemory(t *testing.T) {
	for _, have := range []string{"-1", "2147483648", "much"} {
		if err := services.Run(t.Context(), "echo", []string{"--memory=" + have}); err == nil || !strings.Contains(err.Error(), have) {
			t.Errorf("--memory=%s: %v", have, err)
		}
	}
}

func TestHandler(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := httptest.NewServer(echo.Handler(registry))
	defer server.Close()
	for _, tc := range []struct {
		path   string
		status int
		bytes  int64
	}{
		{"/bytes", 200, 1}, {"/bytes?n=0", 200, 0}, {"/bytes?n=100000", 200, 100000},
		{"/bytes?n=-1", 400, -1}, {"/bytes?n=many", 400, -1}, {"/bytes?n=999999999", 400, -1}, {"/other", 404, -1},
	} {
		response, err := http.Get(server.URL + tc.path)
		if err != nil {
			t.Fatalf("%s: %v", tc.path, err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != tc.status || tc.bytes >= 0 && n != tc.bytes {
			t.Errorf("%s: status %d with %d bytes (%v), want %d with %d", tc.path, response.StatusCode, n, err, tc.status, tc.bytes)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = metric.GetCounter().GetValue()
		}
	}
	want := map[string]float64{
		"relapse_answered_bytes_total":        100001,
		"relapse_handled_total bytes ok":      3,
		"relapse_handled_total bytes refused": 3,
	}
	if !maps.Equal(got, want) {
		t.Errorf("counters %v, want %v", got, want)
	}
}
