package account

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Class names that stand for calls which no limit names.
const (
	classAll   = "all"   // the one limit for all calls
	classOther = "other" // what is left where limits name some calls
)

// Limits says how many requests may be in flight, by class of call: "all"
// alone, or calls by name and "other" for the rest.
type Limits map[string]int

// ErrLimits says that limits cannot be held: a call is left without one, or a
// number allows nothing.
var ErrLimits = errors.New("unusable limits")

// ParseLimits reads limits as a flag has them: "64", or "verify=48,other=16".
func ParseLimits(s string) (Limits, error) {
	limits := Limits{}
	for part := range strings.SplitSeq(s, ",") {
		class, number, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			class, number = classAll, class
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("limit %q: %w", part, err)
		}
		if _, twice := limits[class]; twice {
			return nil, fmt.Errorf("%w: %q is limited twice in %q", ErrLimits, class, s)
		}
		limits[class] = n
	}
	_, err := newLimiter(limits)
	return limits, err
}

// place is one class's room.
type place struct {
	class string
	limit int64
	used  atomic.Int64
}

// limiter hands out the places in flight.
type limiter struct {
	places []*place
	byCall map[string]*place
}

func newLimiter(limits Limits) (*limiter, error) {
	l := &limiter{byCall: map[string]*place{}}
	for class, n := range limits {
		if class != classAll && class != classOther && !slices.Contains(Calls, class) {
			return nil, fmt.Errorf("%w: no call %q; known: %s, %s", ErrLimits, class, strings.Join(Calls, ", "), classOther)
		}
		if class == classAll && len(limits) > 1 {
			return nil, fmt.Errorf("%w: one limit for all calls leaves no room for others; name the rest %q", ErrLimits, classOther)
		}
		if n < 1 {
			return nil, fmt.Errorf("%w: %s=%d would refuse every request", ErrLimits, class, n)
		}
		l.places = append(l.places, &place{class: class, limit: int64(n)})
	}
	slices.SortFunc(l.places, func(a, b *place) int { return strings.Compare(a.class, b.class) })
	for _, call := range Calls {
		i := slices.IndexFunc(l.places, func(p *place) bool { return p.class == call })
		if i < 0 {
			i = slices.IndexFunc(l.places, func(p *place) bool { return p.class == classAll || p.class == classOther })
		}
		if i < 0 {
			return nil, fmt.Errorf("%w: %s has none; add %s=N", ErrLimits, call, classOther)
		}
		l.byCall[call] = l.places[i]
	}
	return l, nil
}

// take gives a place to a call, or refuses at once.
func (l *limiter) take(call string) (release func(), ok bool) {
	p := l.byCall[call]
	if p.used.Add(1) > p.limit {
		p.used.Add(-1)
		return nil, false
	}
	return func() { p.used.Add(-1) }, true
}
