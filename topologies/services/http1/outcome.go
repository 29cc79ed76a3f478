package http1

import (
	"errors"
	"net"
	"net/http"
	"syscall"
)

// Outcome is what a caller makes of one attempt.
type Outcome int

// The outcomes.
const (
	OK       Outcome = iota // 2xx
	Refused                 // 503, 429, or no connection
	Failed                  // any other reply, or a connection that broke
	TimedOut                // no whole reply in time
)

// Outcomes lists all of them.
var Outcomes = [...]Outcome{OK, Refused, Failed, TimedOut}

var outcomeNames = [...]string{OK: "ok", Refused: "refused", Failed: "error", TimedOut: "timeout"}

// String gives the outcome as metrics label it.
func (o Outcome) String() string { return outcomeNames[o] }

// OutcomeOf sorts what [Client.Do] gave.
func OutcomeOf(status int, err error) Outcome {
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	// A deadline that passes while connecting has another error than one that
	// passes while reading; both are timeouts.
	case errors.As(err, &network) && network.Timeout():
		return TimedOut
	case err != nil:
		return Failed
	case status/100 == 2:
		return OK
	case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return Refused
	default:
		return Failed
	}
}
