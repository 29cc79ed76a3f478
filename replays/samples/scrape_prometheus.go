package samples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func init() {
	register("prometheus", openExposition)
	register("haproxy", openExposition) // its promex service speaks the same format
}

// maxExposition bounds what one scrape may bring: a full HAProxy page is 62 kB.
const maxExposition = 8 << 20

// exposition reads Prometheus' text format 0.0.4 over a kept connection. It uses
// Prometheus' own scanner rather than expfmt, which builds a tree of families:
// of a page of 353 series, four times a second, that is most of the cost.
type exposition struct {
	url     string
	http    *http.Client
	body    bytes.Buffer
	symbols *labels.SymbolTable
}

func openExposition(e Endpoint) (source, error) {
	u, err := httpURL(e)
	if err != nil {
		return nil, err
	}
	return &exposition{
		url:     u,
		http:    &http.Client{CheckRedirect: stayHere, Transport: &http.Transport{MaxIdleConns: 1, DisableCompression: true}},
		symbols: labels.NewSymbolTable(),
	}, nil
}

// stayHere has a client take a redirect for the answer. The tool runs outside the
// nodes' closed network: what one of them answers must not send it anywhere else.
func stayHere(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// httpURL gives an endpoint's URL; no proxy of the environment is ever used for
// it, since the address is one of our own network.
func httpURL(e Endpoint) (string, error) {
	u, err := url.Parse("http://" + e.Address + e.Path)
	if err != nil {
		return "", fmt.Errorf("kind %s: address %q with path %q: %w", e.Kind, e.Address, e.Path, err)
	}
	if u.Port() == "" || u.Hostname() == "" {
		return "", fmt.Errorf("kind %s: address %q: want host:port", e.Kind, e.Address)
	}
	return u.String(), nil
}

func (x *exposition) scrape(ctx context.Context, to *sink) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := x.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: want status 200, got %s", x.url, res.Status)
	}
	x.body.Reset()
	if _, err := x.body.ReadFrom(io.LimitReader(res.Body, maxExposition+1)); err != nil {
		return fmt.Errorf("GET %s: %w", x.url, err)
	}
	if x.body.Len() > maxExposition {
		return fmt.Errorf("GET %s: over %d bytes: scrape a smaller page", x.url, maxExposition)
	}
	p := textparse.NewPromParser(x.body.Bytes(), x.symbols, false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("GET %s: %w", x.url, err)
		}
		if entry == textparse.EntrySeries {
			raw, _, v := p.Series()
			to.addText(v, raw, p.Labels)
		}
	}
}

func (x *exposition) close() { x.http.CloseIdleConnections() }
