package topologies

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// control gives orders to a service of our own inside a node, as JSON over HTTP.
type control struct {
	who  string // begins every error, such as "players euw-players"
	base string
	http *http.Client
}

// RefusedError is what a service of our own answered to an order that it did not
// carry out.
type RefusedError struct {
	Status string // 400 Bad Request
	Said   string
}

func (e *RefusedError) Error() string { return e.Status + ": " + e.Said }

func newControl(who, address string) control {
	return control{who: who, base: "http://" + address, http: &http.Client{
		Timeout: 5 * time.Second,
		// What a node answers must not lead the tool out of the node's closed network.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// A service that was killed and started again must not be asked over a
		// connection to its predecessor.
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

func (c control) do(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", c.who, method, path, err)
		}
		content = bytes.NewReader(b)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return fmt.Errorf("%s: %w", c.who, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", c.who, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("%s: %s %s: %w", c.who, method, path, &RefusedError{response.Status, string(bytes.TrimSpace(said))})
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("%s: %s %s: %w", c.who, method, path, err)
	}
	return nil
}
