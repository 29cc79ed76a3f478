package matchmaking

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"relapse/topologies/services/http1"
)

// Peer is another service of the topology, asked over HTTP.
type Peer struct {
	Name string // the host part of its address
	*http1.Client
}

// NewPeer looks host:port up once: the address of every node is fixed.
func NewPeer(hostPort, agent string) (*Peer, error) {
	name, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("peer %q: want HOST:PORT: %w", hostPort, err)
	}
	address, err := net.ResolveTCPAddr("tcp", hostPort)
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", hostPort, err)
	}
	at := address.AddrPort()
	return &Peer{Name: name, Client: &http1.Client{
		Address: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), Host: hostPort, Agent: agent,
	}}, nil
}

// StatusError is an answer that is no success.
type StatusError struct {
	Status int
	Said   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), e.Said)
}

// Call makes one request, with a body unless it is nil, and reads the answer
// unless nobody wants it. An answer outside 200 to 299 is a [StatusError].
func (p *Peer) Call(method, path string, body, into any, deadline time.Time) error {
	request := p.Request(method, path)
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s%s: %w", method, p.Name, path, err)
		}
		request = p.RequestWithBody(method, path, "application/json", b)
	}
	var said bytes.Buffer
	status, err := p.Do(request, deadline, &said)
	switch {
	case err != nil:
		return fmt.Errorf("%s %s%s: %w", method, p.Name, path, err)
	case status/100 != 2:
		return fmt.Errorf("%s %s%s: %w", method, p.Name, path, &StatusError{status, string(bytes.TrimSpace(said.Bytes()))})
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(said.Bytes(), into); err != nil {
		return fmt.Errorf("%s %s%s: what it answered: %w", method, p.Name, path, err)
	}
	return nil
}

// mostBody is more than the listing of all servers takes.
const mostBody = 16 << 20

// Read reads the JSON body of a request, strictly; a bad one is answered 400 and
// gives false.
func Read(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	// What is left unread would cost the connection.
	_, _ = io.Copy(io.Discard, r.Body)
	return true
}

// Answer writes JSON.
func Answer(w http.ResponseWriter, status int, with any) {
	b, err := json.Marshal(with)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // an error means that the asker is gone
}
