package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	edgeGauge   = "relapse_edge_connections"
	edgeWithin  = 200 * time.Millisecond // of one question
	edgeAnswers = 8 << 20                // bytes of one answer that are read
)

// edgeURL reads address:port/path. It takes addresses only: a container's hosts
// file knows none but the servers of its links.
func edgeURL(edge string) (string, error) {
	address, path, _ := strings.Cut(edge, "/")
	if _, err := netip.ParseAddrPort(address); err != nil {
		return "", fmt.Errorf("edge %q: want address:port/path, such as 10.128.0.7:9090/metrics: %w", edge, err)
	}
	u, err := url.Parse("http://" + address + "/" + path)
	if err != nil {
		return "", fmt.Errorf("edge %q: %w", edge, err)
	}
	return u.String(), nil
}

// edges asks edges for their open connections.
type edges struct {
	http     *http.Client
	unheard  prometheus.Counter
	deadline time.Duration
}

func newEdges(unheard prometheus.Counter) *edges {
	return &edges{unheard: unheard, deadline: edgeWithin, http: &http.Client{
		// What an edge answers leads nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// No proxy of the environment: the addresses are of our own network.
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1},
	}}
}

// connections sums the gauge over all edges, and says how many of them have told
// it. An edge that does not answer is counted in unheard: a dead one has no
// connections.
func (e *edges) connections(ctx context.Context, of []string) (sum float64, heard int) {
	open := make([]float64, len(of))
	told := make([]bool, len(of))
	var asking sync.WaitGroup
	for i, edge := range of {
		asking.Go(func() {
			n, err := e.ask(ctx, edge)
			if err != nil {
				e.unheard.Inc()
				return
			}
			open[i], told[i] = n, true
		})
	}
	asking.Wait()
	for i, n := range open {
		sum += n
		if told[i] {
			heard++
		}
	}
	return sum, heard
}

func (e *edges) ask(ctx context.Context, edge string) (float64, error) {
	address, err := edgeURL(edge)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.deadline)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := e.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET %s: %s", address, response.Status)
	}
	return sumOf(edgeGauge, io.LimitReader(response.Body, edgeAnswers))
}

// sumOf adds up the series of one name in Prometheus' text format: lines of
// name{labels} value, the labels left out where there are none.
func sumOf(name string, text io.Reader) (float64, error) {
	sum, found := 0.0, false
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok {
			continue
		}
		if strings.HasPrefix(rest, "{") {
			// The last bracket: a label's value may hold one too.
			rest = rest[strings.LastIndexByte(rest, '}')+1:]
		} else if !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
			continue // a longer name
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, fmt.Errorf("%q has no value", lines.Text())
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		sum, found = sum+v, true
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("no series %s", name)
	}
	return sum, nil
}
