package topologies

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// playersControl is the port on which a load generator takes orders.
const playersControl = 9091

// Players drives the load generator of a node with operations.
type Players struct {
	node string
	control
}

func newPlayers(node, address string) *Players {
	return &Players{node: node, control: newControl("players "+node, address)}
}

// SetRates sets the base rates, in arrivals per second, by operation.
// Operations that are not named get none.
func (p *Players) SetRates(ctx context.Context, rates map[string]float64) error {
	if rates == nil {
		rates = map[string]float64{}
	}
	return p.do(ctx, http.MethodPut, "/rates", rates, nil)
}

// Scale multiplies an operation's base rate by a factor under a name, until
// [Players.Unscale]. Factors of several names multiply; they outlive SetRates.
func (p *Players) Scale(ctx context.Context, name, operation string, factor float64) error {
	body := struct {
		Operation string  `json:"operation"`
		Factor    float64 `json:"factor"`
	}{operation, factor}
	return p.do(ctx, http.MethodPut, "/scales/"+url.PathEscape(name), body, nil)
}

// Unscale takes a factor away. One that is not there is no error.
func (p *Players) Unscale(ctx context.Context, name string) error {
	return p.do(ctx, http.MethodDelete, "/scales/"+url.PathEscape(name), nil, nil)
}

// Arrivals gives an operation's arrivals per second, as the generator itself
// measured them over the last 500 ms.
func (p *Players) Arrivals(ctx context.Context, operation string) (float64, error) {
	var rates map[string]struct {
		Arrived float64 `json:"arrived_per_second"`
	}
	if err := p.do(ctx, http.MethodGet, "/rates", nil, &rates); err != nil {
		return 0, err
	}
	rate, known := rates[operation]
	if !known {
		return 0, fmt.Errorf("players %s: no operation %q", p.node, operation)
	}
	return rate.Arrived, nil
}
