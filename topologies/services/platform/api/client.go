package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
)

// Client asks one service of the platform over connections that are kept. It sends
// nothing again by itself. Whoever uses it calls Prune every second or so, and Close
// at the end.
type Client struct{ *matchmaking.Peer }

// NewClient looks host:port up once: the address of every node is fixed.
func NewClient(hostPort, agent string) (*Client, error) {
	peer, err := matchmaking.NewPeer(hostPort, agent)
	if err != nil {
		return nil, err
	}
	return &Client{peer}, nil
}

// StatusError is an answer outside 200 to 299.
type StatusError = matchmaking.StatusError

// mostAnswer is more than any answer of the platform takes: ten thousand names of
// servers.
const mostAnswer = 1 << 20

// ErrTooLong says that an answer is longer than any that the platform gives.
var ErrTooLong = errors.New("the answer is too long")

// capped keeps what an answer says, up to a limit. It has no ReadFrom on purpose:
// what copies into it would go round the limit.
type capped struct{ said bytes.Buffer }

func (c *capped) Write(b []byte) (int, error) {
	if c.said.Len()+len(b) > mostAnswer {
		return 0, fmt.Errorf("%w: over %d bytes", ErrTooLong, mostAnswer)
	}
	return c.said.Write(b)
}

// Call makes one request, with a JSON body unless it is nil, and reads the answer
// unless nobody wants it. All of it is done by the deadline. The error is a
// [StatusError] for an answer that is no success; [OutcomeOf] sorts all of them.
func (c *Client) Call(method, path string, body, into any, deadline time.Time) error {
	fail := func(err error) error { return fmt.Errorf("%s %s%s: %w", method, c.Name, path, err) }
	request := c.Request(method, path)
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fail(err)
		}
		request = c.RequestWithBody(method, path, "application/json", b)
	}
	var answer capped
	status, err := c.Do(request, deadline, &answer)
	switch {
	case err != nil:
		return fail(err)
	case status/100 != 2:
		return fail(&StatusError{Status: status, Said: string(bytes.TrimSpace(answer.said.Bytes()))})
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(answer.said.Bytes(), into); err != nil {
		return fail(fmt.Errorf("what it answered: %w", err))
	}
	return nil
}

// StatusOf gives the status of an answer that was no success, and 0 where an error is
// none: nobody knows then whether the request was carried out.
func StatusOf(err error) int {
	var answered *StatusError
	if errors.As(err, &answered) {
		return answered.Status
	}
	return 0
}

// OutcomeOf sorts what [Client.Call] gave.
func OutcomeOf(err error) http1.Outcome {
	switch status := StatusOf(err); {
	case err == nil:
		return http1.OutcomeOf(http.StatusOK, nil)
	case status != 0:
		return http1.OutcomeOf(status, nil)
	}
	return http1.OutcomeOf(0, err)
}
