package platform

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/platform/api"
)

// route is one thing that a role is asked for. What it does writes the answer itself
// if it succeeds, and gives an error otherwise.
type route struct {
	pattern string // as ServeMux has it
	op      string // in metrics
	do      func(w http.ResponseWriter, r *http.Request) error
}

// refusal is an answer that is no success, and the caller's affair.
type refusal struct {
	status int
	why    string
	said   bool // the answer is written already
}

func (e *refusal) Error() string { return e.why }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, why: fmt.Sprintf(format, args...)}
}

// bad makes the error of a check the caller's.
func bad(err error) error { return &refusal{status: http.StatusBadRequest, why: err.Error()} }

// read reads a JSON body, strictly.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	if !matchmaking.Read(w, r, into) {
		return &refusal{status: http.StatusBadRequest, why: "the body cannot be read", said: true}
	}
	return nil
}

// mostBody is more than the longest request takes: the leases of fifty thousand
// servers.
const mostBody = 1 << 20

// handle puts the workers, the cost and the metrics around a route.
func (p *Platform) handle(role string, route route) http.Handler {
	m := p.metrics.route(role, route.op)
	cost := p.config.Costs[role]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release, ok := p.limits.Take(role)
		if !ok {
			m.outcomes[shed].Inc()
			w.Header().Set("Retry-After", "1")
			http.Error(w, role+": all workers are busy", http.StatusServiceUnavailable)
			return
		}
		defer release()
		began := time.Now()
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		err := take(r, cost)
		if err == nil {
			err = route.do(w, r)
		}
		outcome := ok200
		if err != nil {
			outcome = fail(w, r, err)
		}
		m.outcomes[outcome].Inc()
		m.seconds.Observe(time.Since(began).Seconds())
	})
}

// take lets the cost of a request pass. The body is read before that: until it is, a
// server does not notice that the caller has gone.
func take(r *http.Request, cost time.Duration) error {
	if cost == 0 {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return bad(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !services.Wait(r.Context(), cost) {
		return r.Context().Err()
	}
	return nil
}

// fail answers with an error and gives the outcome that it counts as.
func fail(w http.ResponseWriter, r *http.Request, err error) string {
	if r.Context().Err() != nil {
		return abandoned // there is nobody to answer
	}
	var refused *refusal
	if !errors.As(err, &refused) {
		// A peer failed: what it said is passed on for whoever reads the answer.
		status := http.StatusBadGateway
		switch api.OutcomeOf(err) {
		case http1.TimedOut:
			status = http.StatusGatewayTimeout
		case http1.Refused:
			status = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), status)
		return failed
	}
	if refused.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if !refused.said {
		http.Error(w, refused.why, refused.status)
	}
	return outcomeOf(refused.status)
}

// player reads for whom a request is.
func player(r *http.Request) (api.Player, error) {
	p, err := api.ParsePlayer(r.URL.Query().Get("player"))
	if err != nil {
		return 0, bad(err)
	}
	return p, nil
}
