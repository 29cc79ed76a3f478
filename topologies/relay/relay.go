// Package relay holds the links of a topology that faults may break. It runs as
// one process per topology, with an address of its own for each proxied link:
//
//	client ──> link's address ──> relay ──> server
//	           │                  └ toxics: what a TCP proxy can do to a byte stream
//	           └ rules: what only a packet filter can do to packets
//
// Toxics run in toxiproxy's chains, one set of chains per link, so that a
// blocked link cannot block another. Connections are accepted, dialled and
// closed here instead of by toxiproxy, which keeps what a direct connection
// would show: half-closed connections, resets as resets, and a server that
// cannot be reached holding up nobody but its own clients. Rules are nftables
// rules in the relay's own network namespace, matched by the link's address and
// port.
//
// Two things differ from a direct link and cannot be helped by a TCP proxy. The
// relay accepts a connection before it knows whether the server would, so a
// client of a dead server sees "connected", then a reset, and never "connection
// refused"; health checks that only connect see a dead server as healthy. And
// the server sees the link's address as its client's.
package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Config says what a relay serves.
type Config struct {
	// Control is the address of the control API, such as "0.0.0.0:8474".
	Control string `json:"control"`
	Links   []Link `json:"links"`
}

// Link is one proxied link.
type Link struct {
	// Name is the link's name as topologies.Link.String gives it.
	Name string `json:"name"`
	// Listen is where clients connect. Its address is added to the interface
	// that holds its subnet, as a /32.
	Listen netip.AddrPort `json:"listen"`
	// Upstream is the server. It is an address and no name: the relay must not
	// depend on what its hosts file says, which leads back to the relay.
	Upstream netip.AddrPort `json:"upstream"`
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Control == "" {
		errs = append(errs, errors.New("control: an address to listen on is needed, such as 0.0.0.0:8474"))
	}
	names, listens := map[string]bool{}, map[netip.AddrPort]string{}
	for i, l := range c.Links {
		where := fmt.Sprintf("link %d (%s)", i+1, l.Name)
		if l.Name == "" {
			errs = append(errs, fmt.Errorf("%s: a name is needed", where))
		}
		if names[l.Name] {
			errs = append(errs, fmt.Errorf("%s: the name is taken by an earlier link", where))
		}
		names[l.Name] = true
		for _, a := range []struct {
			what string
			addr netip.AddrPort
		}{{"listen", l.Listen}, {"upstream", l.Upstream}} {
			if !a.addr.Addr().Is4() || a.addr.Addr().IsUnspecified() || a.addr.Port() == 0 {
				errs = append(errs, fmt.Errorf("%s: %s %s: an IPv4 address and port is needed", where, a.what, a.addr))
			}
		}
		if other, taken := listens[l.Listen]; taken {
			errs = append(errs, fmt.Errorf("%s: listens on %s, as %s does", where, l.Listen, other))
		}
		listens[l.Listen] = l.Name
		if l.Listen == l.Upstream {
			errs = append(errs, fmt.Errorf("%s: listens on its own upstream %s", where, l.Listen))
		}
	}
	return errors.Join(errs...)
}

// Streams of a link, from the client's side.
const (
	Upstream   = "upstream"   // client to server
	Downstream = "downstream" // server to client
)

// Toxic changes the bytes of one direction of a link, on open connections and
// on new ones. Its types and their attributes are listed by [ToxicTypes].
type Toxic struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Stream string `json:"stream"` // [Upstream] or [Downstream]
	// Attributes is anything that encodes to the type's attributes as JSON.
	Attributes any `json:"attributes,omitempty"`
}

// Action is what a rule does to packets.
type Action string

// What rules do.
const (
	// Drop loses every packet in both directions: a black hole. Connections
	// that outlive it go on where they were.
	Drop Action = "drop"
	// Refuse answers new connections with a reset, which a client sees as
	// "connection refused". Open connections live on.
	Refuse Action = "refuse"
	// Reset resets every open connection, at both of its ends, and answers all
	// packets of clients with a reset until it is removed.
	Reset Action = "reset"
	// Loss loses each packet with a chance of Percent, in each direction on its
	// own. Which packets are lost is the kernel's draw and has no seed.
	Loss Action = "loss"
	// Cap refuses new connections while Limit or more are open, those from
	// before the rule included. Requests that are on their way in the instant
	// that the limit is reached are accepted and reset at once.
	Cap Action = "cap"
	// Rate loses the connection requests above Limit a second, as an overflowing
	// backlog does: the client's kernel repeats the request after 1 s, 3 s, 7 s.
	Rate Action = "rate"
)

// Actions are all actions of rules.
var Actions = []Action{Drop, Refuse, Reset, Loss, Cap, Rate}

// Rule changes the packets of a link.
type Rule struct {
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Percent is the share of packets that [Loss] loses, from 0.01 to 100, in
	// steps of 0.01.
	Percent float64 `json:"percent,omitempty"`
	// Limit is the number of connections of [Cap], or of new connections a
	// second of [Rate].
	Limit int `json:"limit,omitempty"`
}

// Validate says what is wrong with the rule.
func (r Rule) Validate() error {
	if r.Name == "" || strings.ContainsAny(r.Name, " \x00") {
		return fmt.Errorf("rule name %q: must be non-empty and without spaces", r.Name)
	}
	switch r.Action {
	case Drop, Refuse, Reset:
		return nil
	case Loss:
		if r.Percent < 0.01 || r.Percent > 100 {
			return fmt.Errorf("rule %s: loss of %v percent: must be from 0.01 to 100", r.Name, r.Percent)
		}
		return nil
	case Cap, Rate:
		if r.Limit < 1 {
			return fmt.Errorf("rule %s: limit of %d: must be 1 or more; refuse lets no connection in", r.Name, r.Limit)
		}
		return nil
	default:
		return fmt.Errorf("rule %s: action %q: must be one of %v", r.Name, r.Action, Actions)
	}
}

// State is what a link is doing.
type State struct {
	Link string `json:"link"`
	// Open is the number of connections now, and Accepted of all so far.
	Open     int    `json:"open"`
	Accepted uint64 `json:"accepted"`
	// Unreached counts connections that had to be reset since the server could
	// not be reached; LastUnreached says why the last one could not.
	Unreached     uint64 `json:"unreached"`
	LastUnreached string `json:"last_unreached,omitempty"`
	// Excess counts connections that came in the instant that a cap was reached.
	Excess uint64 `json:"excess,omitempty"`
	// BytesUp and BytesDown are the bytes read from clients and from the server.
	BytesUp   uint64 `json:"bytes_up"`
	BytesDown uint64 `json:"bytes_down"`
	// BytesUpSent and BytesDownSent are the bytes that left the relay again.
	BytesUpSent   uint64        `json:"bytes_up_sent"`
	BytesDownSent uint64        `json:"bytes_down_sent"`
	Toxics        []Toxic       `json:"toxics,omitempty"`
	Rules         []RuleState   `json:"rules,omitempty"`
	Buckets       []BucketState `json:"buckets,omitempty"`
}

// RuleState is a rule as the kernel holds it.
type RuleState struct {
	Rule
	// Packets and Bytes are what the rule acted on, in both directions.
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// BucketState is a token bucket that toxics of the link share.
type BucketState struct {
	Bucket string  `json:"bucket"`
	Rate   float64 `json:"rate"`  // bytes a second
	Burst  float64 `json:"burst"` // bytes
	// Taken is the bytes that went through, or will: they are taken when they
	// arrive and never given back.
	Taken uint64 `json:"taken"`
	// Backlog is how long a byte that arrives now has to wait.
	Backlog time.Duration `json:"backlog"`
}

// Capabilities says what this kernel lets the relay do.
type Capabilities struct {
	// Missing gives the reason for each action that cannot be had here.
	Missing map[Action]string `json:"missing,omitempty"`
}

// Check gives an [UnsupportedError] if rules with the action cannot be had.
func (c Capabilities) Check(a Action) error {
	if reason, missing := c.Missing[a]; missing {
		return &UnsupportedError{Action: a, Reason: reason}
	}
	return nil
}

// UnknownLinkError is a link that the relay does not hold.
type UnknownLinkError struct {
	Link  string
	Known []string
}

func (e *UnknownLinkError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("link %q: the relay holds no links", e.Link)
	}
	return fmt.Sprintf("link %q: the relay does not hold it; it holds %s", e.Link, strings.Join(e.Known, ", "))
}

// UnsupportedError is an action that this kernel does not offer.
type UnsupportedError struct {
	Action Action
	Reason string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("rules with action %s cannot be had on this kernel: %s", e.Action, e.Reason)
}

// ForcedError says that an operation on a link's toxics ended only since the
// link's connections were closed.
type ForcedError struct {
	Link, Operation string
	After           time.Duration
	Closed          int
	// Rebuilt says that closing the connections was not enough, and the link
	// was given new chains.
	Rebuilt bool
}

func (e *ForcedError) Error() string {
	how := ""
	if e.Rebuilt {
		how = " and its chains rebuilt"
	}
	return fmt.Sprintf("link %s: %s was stuck for %s; it is done now, but %d connections had to be closed%s to free it",
		e.Link, e.Operation, e.After, e.Closed, how)
}

// RequestError is a request that the relay refused or failed.
type RequestError struct {
	Link, Operation string
	Problem         string
}

func (e *RequestError) Error() string {
	if e.Link == "" {
		return fmt.Sprintf("relay: %s: %s", e.Operation, e.Problem)
	}
	return fmt.Sprintf("link %s: %s: %s", e.Link, e.Operation, e.Problem)
}

// attributes gives the toxic's attributes as JSON.
func (t Toxic) attributes() (json.RawMessage, error) {
	if t.Attributes == nil {
		return json.RawMessage("{}"), nil
	}
	return json.Marshal(t.Attributes)
}
