package store

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/shards"
)

// order is what a player wants done with an item: POST /buy and POST /equip.
type order struct {
	Op     string     `json:"op"`
	Player api.Player `json:"player"`
	Item   string     `json:"item"`
}

// balance is what is left after an operation.
type balance struct {
	Balance int64 `json:"balance"`
}

// mostBody is more than any request takes.
const mostBody = 1 << 14

// read reads a JSON body. A field that means nothing is refused, since a request that is
// half understood would be half carried out.
func read(r *http.Request, into any) error {
	decoder := json.NewDecoder(io.LimitReader(r.Body, mostBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// checkOp refuses an operation that could not be told from others.
func checkOp(op string, p api.Player) error {
	switch {
	case op == "":
		return malformed("op: give an id; without one a retry is another operation")
	case len(op) > shards.MostOp:
		return malformed("op: an id of %d bytes: want %d at most", len(op), shards.MostOp)
	case p < 0:
		return malformed("player %d: want a number from 0", p)
	}
	return nil
}

func asked(r *http.Request) (api.Player, error) {
	p, err := api.ParsePlayer(r.URL.Query().Get("player"))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return p, nil
}

func (s *Store) getWallet(ctx context.Context, r *http.Request) (any, error) {
	p, err := asked(r)
	if err != nil {
		return nil, err
	}
	return s.wallet.read(ctx, p)
}

func (s *Store) getInventory(ctx context.Context, r *http.Request) (any, error) {
	p, err := asked(r)
	if err != nil {
		return nil, err
	}
	return s.items.read(ctx, p)
}

func (s *Store) postBuy(ctx context.Context, r *http.Request) (any, error) {
	var o order
	if err := s.readOrder(r, &o); err != nil {
		return nil, err
	}
	left, outcome, err := s.wallet.buy(ctx, purchase{o.Op, o.Player, o.Item, s.prices[o.Item]})
	if err != nil {
		_, outcome = sorted(err)
	}
	s.metrics.purchases[outcome].Inc()
	return balance{left}, err
}

func (s *Store) postEquip(ctx context.Context, r *http.Request) (any, error) {
	var o order
	if err := s.readOrder(r, &o); err != nil {
		return nil, err
	}
	return struct {
		Equipped string `json:"equipped"`
	}{o.Item}, s.items.equip(ctx, o)
}

func (s *Store) readOrder(r *http.Request, o *order) error {
	if err := read(r, o); err != nil {
		return err
	}
	if err := checkOp(o.Op, o.Player); err != nil {
		return err
	}
	if _, known := s.prices[o.Item]; !known {
		return fmt.Errorf("%w: %q", ErrUnknownItem, o.Item)
	}
	return nil
}

func (s *Store) postGrant(ctx context.Context, r *http.Request) (any, error) {
	var g api.GrantRequest
	if err := read(r, &g); err != nil {
		return nil, err
	}
	if err := checkOp(g.Op, g.Player); err != nil {
		return nil, err
	}
	if g.Amount < 1 {
		return nil, malformed("amount %d: want 1 or more", g.Amount)
	}
	left, err := s.wallet.grant(ctx, g.Op, g.Player, g.Amount)
	return balance{left}, err
}

func (s *Store) postItems(ctx context.Context, r *http.Request) (any, error) {
	var g grant
	if err := read(r, &g); err != nil {
		return nil, err
	}
	if err := checkOp(g.Op, g.Player); err != nil {
		return nil, err
	}
	if g.Item == "" || g.Price < 0 {
		return nil, malformed("item %q for %d: want a name and a price of zero or more", g.Item, g.Price)
	}
	made, err := s.items.grant(ctx, g)
	return granted{made}, err
}
