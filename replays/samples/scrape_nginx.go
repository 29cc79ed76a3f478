package samples

import (
	"context"
	"fmt"
	"net/http"

	"github.com/nginx/nginx-prometheus-exporter/client"
)

func init() { register("nginx", openNginx) }

// nginx reads the page of ngx_http_stub_status_module, with the metric names of
// nginx-prometheus-exporter. Every scrape is a connection of its own: a kept one
// would hold one of the worker's slots for good, and nginx closes idle ones
// first when it runs out, so that a failed scrape means that nobody gets in.
type nginx struct {
	status *client.NginxClient
	http   *http.Client
}

func openNginx(e Endpoint) (source, error) {
	u, err := httpURL(e)
	if err != nil {
		return nil, err
	}
	// The client takes no context: its own time limit stands in for it.
	h := &http.Client{
		Timeout: Deadline, CheckRedirect: stayHere,
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	return &nginx{status: client.NewNginxClient(h, u), http: h}, nil
}

func (n *nginx) scrape(_ context.Context, to *sink) error {
	stats, err := n.status.GetStubStats()
	if err != nil {
		return fmt.Errorf("stub_status: %w", err)
	}
	c := stats.Connections
	to.add(float64(c.Active), "nginx_connections_active")
	to.add(float64(c.Accepted), "nginx_connections_accepted")
	to.add(float64(c.Handled), "nginx_connections_handled")
	to.add(float64(c.Reading), "nginx_connections_reading")
	to.add(float64(c.Writing), "nginx_connections_writing")
	to.add(float64(c.Waiting), "nginx_connections_waiting")
	to.add(float64(stats.Requests), "nginx_http_requests_total")
	return nil
}

func (n *nginx) close() { n.http.CloseIdleConnections() }
