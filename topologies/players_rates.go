package topologies

import (
	"context"
	"fmt"
	"net/http"
)

// Base gives an operation's base rate in arrivals per second, as
// [Players.SetRates] left it: without the factors of [Players.Scale].
func (p *Players) Base(ctx context.Context, operation string) (float64, error) {
	var rates map[string]struct {
		Base float64 `json:"base"`
	}
	if err := p.do(ctx, http.MethodGet, "/rates", nil, &rates); err != nil {
		return 0, err
	}
	rate, known := rates[operation]
	if !known {
		return 0, fmt.Errorf("players %s: no operation %q", p.node, operation)
	}
	return rate.Base, nil
}
