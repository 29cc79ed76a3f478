package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// callWithin bounds each call. It is longer than the relay's own deadlines, so
// that a stuck operation is reported by the relay, which knows why.
const callWithin = 5 * time.Second

// Client speaks to a relay's control API. It may be used by several goroutines.
type Client struct {
	base string
	http *http.Client
}

// NewClient makes a client for a control address, such as "10.77.0.2:8474".
func NewClient(control string) *Client {
	return &Client{
		base: "http://" + strings.TrimPrefix(control, "http://"),
		http: &http.Client{
			// The relay sends nobody elsewhere; what says so is not the relay.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
		},
	}
}

// Close gives up the connections that are kept for further calls.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ready polls until the relay answers, which it does once every link listens.
func (c *Client) Ready(ctx context.Context) error {
	for {
		_, err := c.Links(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the relay at %s is not ready: %w; the last answer was: %w", c.base, ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Links gives the names of the links that the relay holds, sorted.
func (c *Client) Links(ctx context.Context) ([]string, error) {
	var names []string
	return names, c.call(ctx, "list links", http.MethodGet, "/links", nil, &names)
}

// Capabilities says what the relay's kernel offers.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	var out Capabilities
	return out, c.call(ctx, "read capabilities", http.MethodGet, "/capabilities", nil, &out)
}

// AddToxic adds a toxic to a link; open connections meet it with their next
// bytes. If the link has a toxic of the same name and type already, that gets
// the new attributes.
func (c *Client) AddToxic(ctx context.Context, link string, t Toxic) error {
	if t.Name == "" {
		return &RequestError{Link: link, Operation: "add a toxic", Problem: "it needs a name"}
	}
	return c.call(ctx, describe("add", t.Name), http.MethodPut, toxicPath(link, t.Name), t, nil)
}

// RemoveToxic takes a toxic away; what it holds is delivered at once. There may
// be none of that name.
func (c *Client) RemoveToxic(ctx context.Context, link, name string) error {
	return c.call(ctx, describe("remove", name), http.MethodDelete, toxicPath(link, name), nil, nil)
}

// AddRule puts a rule in force, in place of one of the same name on the link.
func (c *Client) AddRule(ctx context.Context, link string, r Rule) error {
	if err := r.Validate(); err != nil {
		return &RequestError{Link: link, Operation: "add a rule", Problem: err.Error()}
	}
	return c.call(ctx, fmt.Sprintf("add rule %q", r.Name), http.MethodPut, rulePath(link, r.Name), r, nil)
}

// RemoveRule takes a rule away. There may be none of that name.
func (c *Client) RemoveRule(ctx context.Context, link, name string) error {
	return c.call(ctx, fmt.Sprintf("remove rule %q", name), http.MethodDelete, rulePath(link, name), nil, nil)
}

// State says what a link is doing; its rules are read from the kernel.
func (c *Client) State(ctx context.Context, link string) (State, error) {
	var out State
	return out, c.call(ctx, "read the state of "+link, http.MethodGet, linkPath(link), nil, &out)
}

// Reset takes away all toxics and rules of all links.
func (c *Client) Reset(ctx context.Context) error {
	return c.call(ctx, "reset", http.MethodPost, "/reset", nil, nil)
}

func linkPath(link string) string        { return "/links/" + url.PathEscape(link) }
func toxicPath(link, name string) string { return linkPath(link) + "/toxics/" + url.PathEscape(name) }
func rulePath(link, name string) string  { return linkPath(link) + "/rules/" + url.PathEscape(name) }

func (c *Client) call(ctx context.Context, what, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("relay: %s: %w", what, err)
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return fmt.Errorf("relay: %s: %w", what, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("relay: %s: %w", what, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("relay: %s: %w", what, err)
	}
	if response.StatusCode != http.StatusOK {
		var f failure
		if err := json.Unmarshal(answer, &f); err != nil {
			return fmt.Errorf("relay: %s: %s answered %s: %s", what, c.base, response.Status, bytes.TrimSpace(answer))
		}
		return f.err()
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("relay: %s: the answer of %s: %w", what, c.base, err)
	}
	return nil
}
