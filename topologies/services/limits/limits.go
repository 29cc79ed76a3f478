// Package limits bounds the requests in flight of a service: what is over a
// limit is refused at once, never queued. It is the overload protection that
// the documented services are said to have.
package limits

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Class names that stand for calls which no limit names.
const (
	All   = "all"   // the one limit for all calls
	Other = "other" // what is left where limits name some calls
)

// Limits says how many requests may be in flight, by class of call: "all"
// alone, or calls by name and "other" for the rest.
type Limits map[string]int

// ErrUnusable says that limits cannot be held: a call is left without one, or a
// number allows nothing.
var ErrUnusable = errors.New("unusable limits")

// Parse reads limits of some calls as a flag has them: "64", or
// "verify=48,other=16".
func Parse(s string, calls []string) (Limits, error) {
	limits := Limits{}
	for part := range strings.SplitSeq(s, ",") {
		class, number, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			class, number = All, class
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", part, err)
		}
		if _, twice := limits[class]; twice {
			return nil, fmt.Errorf("%w: %q is limited twice in %q", ErrUnusable, class, s)
		}
		limits[class] = n
	}
	_, err := New(limits, calls)
	return limits, err
}

// place is one class's room.
type place struct {
	class string
	limit int64
	used  atomic.Int64
}

// Limiter hands out the places in flight.
type Limiter struct {
	places []*place
	byCall map[string]*place
}

// New makes a limiter of a service with some calls.
func New(limits Limits, calls []string) (*Limiter, error) {
	l := &Limiter{byCall: map[string]*place{}}
	for class, n := range limits {
		if class != All && class != Other && !slices.Contains(calls, class) {
			return nil, fmt.Errorf("%w: no call %q; known: %s, %s", ErrUnusable, class, strings.Join(calls, ", "), Other)
		}
		if class == All && len(limits) > 1 {
			return nil, fmt.Errorf("%w: one limit for all calls leaves no room for others; name the rest %q", ErrUnusable, Other)
		}
		if n < 1 {
			return nil, fmt.Errorf("%w: %s=%d would refuse every request", ErrUnusable, class, n)
		}
		l.places = append(l.places, &place{class: class, limit: int64(n)})
	}
	slices.SortFunc(l.places, func(a, b *place) int { return strings.Compare(a.class, b.class) })
	for _, call := range calls {
		i := slices.IndexFunc(l.places, func(p *place) bool { return p.class == call })
		if i < 0 {
			i = slices.IndexFunc(l.places, func(p *place) bool { return p.class == All || p.class == Other })
		}
		if i < 0 {
			return nil, fmt.Errorf("%w: %s has none; add %s=N", ErrUnusable, call, Other)
		}
		l.byCall[call] = l.places[i]
	}
	return l, nil
}

// Take gives a place to a call, or refuses at once. The call must be one of
// those that the limiter was made for.
func (l *Limiter) Take(call string) (release func(), ok bool) {
	p := l.byCall[call]
	if p.used.Add(1) > p.limit {
		p.used.Add(-1)
		return nil, false
	}
	return func() { p.used.Add(-1) }, true
}

// Register shows, by class, what is in flight and what may be.
func (l *Limiter) Register(registry *prometheus.Registry) {
	for _, p := range l.places {
		labels := prometheus.Labels{"class": p.class}
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_in_flight", Help: "Requests in flight, by the class that a limit holds for.", ConstLabels: labels,
			}, func() float64 { return float64(p.used.Load()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "relapse_in_flight_limit", Help: "Requests that may be in flight, by class.", ConstLabels: labels,
			}, func() float64 { return float64(p.limit) }),
		)
	}
}
