package players

import (
	"context"

	"relapse/topologies/services"
	"relapse/topologies/services/http1"
)

// target is whom requests can go to.
type target struct {
	*http1.Client
	spare bool // gets nothing but by a redirect
	// By the generator's lock:
	sent     services.Recent // requests
	redirect *redirect       // what leads away from it; nil if nothing does
}

func newTarget(ctx context.Context, url string, spare bool) (*target, error) {
	address, host, err := http1.LookUp(ctx, url)
	if err != nil {
		return nil, err
	}
	return &target{Client: &http1.Client{Address: address, Host: host, Agent: "relapse-players"}, spare: spare}, nil
}
