// Package store is the shop of a game platform: wallets, inventories, and a ledger of
// the purchases between them.
//
// Documented (Riot, 2020, https://technology.riotgames.com/news/scalability-and-load-testing-valorant):
// each service owns its data, so that no transaction covers two of them, at the price
// of a ledger of unfinished operations, retries that change nothing twice, and states in
// which something is locked. How they are made is not documented; what follows is this
// project's.
//
// # Two services
//
// The wallet owns money and the ledger; the inventory owns items. They write in
// transactions of their own, and speak over HTTP if they are two nodes (Owns says which
// one this is). Package shards says on which database a player's rows are.
//
// # A purchase
//
//	         money locked          item granted           paid
//	(none) ───────────────▶ locked ─ ─ ─ ─ ─ ─ ─▶ locked ──────▶ settled
//	          wallet                inventory       │     wallet
//	                                                │ the item is another purchase's
//	                                                └────────────▶ released
//
// Its steps:
//
//   - Locking is one transaction of the wallet: it takes the money out of the balance,
//     and writes the ledger's entry under the operation's name. Whoever comes with the
//     same operation finds the entry.
//   - Granting is one transaction of the inventory. A player has an item once, by one
//     operation: the same operation may grant again and changes nothing, any other is
//     refused, for good.
//   - Settling, or releasing where the item was refused, is one transaction of the
//     wallet: the entry leaves the state locked, and only whoever takes it out of it
//     moves the money. So whoever finishes a purchase, and however many do at once, the
//     end is the same one.
//
// A crash between two steps leaves a locked entry. Whoever locks has a lease on it.
// Once that is over any recovery worker may finish the entry, one per node and as many
// as there are, and so may the caller who comes again. An entry is finished within
// [Config.Bound] from when both services and their databases answer. While one purchase
// of a player is unfinished another one is refused as locked; so no holder of the lock,
// killed or asleep, keeps it for longer than that bound.
//
// # The idempotency record
//
// What the caller of an operation was answered is kept with the ledger's entry, and is
// forgotten after a while. The entry is not: the player and the operation's name are the
// key of the ledger, and entries are never deleted. So a caller who comes again after the record has
// expired is told how the operation came out, with the balance of now, and is not
// charged again. What expires is the answer, and never the knowledge that there was one.
//
// # Without the ledger
//
// NoLedger is the documented cost not paid: the money is taken, and then the item is
// given. A crash between the two loses the item, and a caller who comes again is charged
// again.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/limits"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store/shards"
)

// The services that a node may be.
const (
	Wallets     = "wallet"
	Inventories = "inventory"
)

// Defaults; the source gives none of them.
const (
	DefaultInitial      = 2000
	DefaultItems        = 40
	DefaultLease        = 2 * time.Second
	DefaultRecoverEvery = 500 * time.Millisecond
	DefaultRemember     = 30 * time.Second
	DefaultLimit        = 256
)

// Config is what a store is made of.
type Config struct {
	Shards shards.Config
	Owns   []string // wallet, inventory, or both
	// Inventory is the node that owns inventories where this one does not. A node with
	// wallets only passes on to it what players ask of their inventories.
	Inventory *api.Client

	Items   int   // in the catalog
	Initial int64 // what every wallet begins with
	Players int   // who have wallets from the start; others get one when they need it

	NoLedger     bool
	Lease        time.Duration // that whoever locks money has to finish the purchase
	RecoverEvery time.Duration // how often unfinished purchases are looked for
	Remember     time.Duration // how long an answer is kept
	// BeforeGrant is a wait between locking the money, or taking it, and granting the
	// item (modelled): what a kill between the two has to hit.
	BeforeGrant time.Duration

	Limit int          // requests in flight, 503 for those above
	Log   *slog.Logger // nil for none
}

// Bound is how long a purchase may be unfinished once both services and their databases
// answer: the lease, two rounds of recovery as one may have begun just before, and the
// four transactions that finishing takes (look, claim, grant, settle). It holds for the
// [recoverAtOnce] purchases that a node finishes at once; a longer backlog is worked off
// as fast as the databases allow.
func (c Config) Bound() time.Duration {
	timeout := c.Shards.Timeout
	if timeout == 0 {
		timeout = shards.DefaultTimeout
	}
	return c.Lease + 2*c.RecoverEvery + 4*timeout + c.BeforeGrant
}

func (c Config) check() error {
	for _, service := range c.Owns {
		if service != Wallets && service != Inventories {
			return fmt.Errorf("store: no service %q; known: %s, %s", service, Wallets, Inventories)
		}
	}
	wallets, inventories := slices.Contains(c.Owns, Wallets), slices.Contains(c.Owns, Inventories)
	switch {
	case len(c.Owns) == 0:
		return fmt.Errorf("store: it owns nothing; give %s, %s, or both", Wallets, Inventories)
	case wallets && !inventories && c.Inventory == nil:
		return errors.New("store: wallets without inventories: give the node that owns those, or nobody ever gets an item")
	case inventories && c.Inventory != nil:
		return errors.New("store: it owns inventories, and is given another node that does")
	case c.Items < 1:
		return fmt.Errorf("store: %d items: want 1 or more", c.Items)
	case c.Initial < 0:
		return fmt.Errorf("store: wallets begin with %d: want zero or more", c.Initial)
	case c.Players < 0:
		return fmt.Errorf("store: %d players: want zero or more", c.Players)
	case c.Lease <= 0, c.RecoverEvery <= 0, c.Remember <= 0:
		return fmt.Errorf("store: a lease of %v, recovery every %v, answers kept for %v: want all more than zero", c.Lease, c.RecoverEvery, c.Remember)
	case c.BeforeGrant < 0:
		return fmt.Errorf("store: a wait of %v before a grant: want zero or more", c.BeforeGrant)
	}
	return nil
}

// Store is a running node.
type Store struct {
	config  Config
	shards  *shards.Shards
	limits  *limits.Limiter
	metrics *metrics
	wallet  *wallet // nil where it is another node's
	items   items   // the inventory, here or there
	catalog []Item
	prices  map[string]int64
	ready   atomic.Bool
}

// New makes a store that has yet to reach its databases; its metrics go to the registry.
func New(c Config, registry *prometheus.Registry) (*Store, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	limiter, err := limits.New(limits.Limits{limits.All: c.Limit}, calls)
	if err != nil {
		return nil, err
	}
	c.Shards.Log = c.Log
	databases, err := shards.Open(c.Shards, registry)
	if err != nil {
		return nil, err
	}
	limiter.Register(registry)
	s := &Store{
		config: c, shards: databases, limits: limiter, metrics: newMetrics(c, registry),
		catalog: Catalog(c.Items), prices: map[string]int64{},
	}
	for _, item := range s.catalog {
		s.prices[item.Item] = item.Price
	}
	if slices.Contains(c.Owns, Inventories) {
		s.items = &inventory{databases}
	} else {
		s.items = &elsewhere{c.Inventory, databases.Timeout()}
	}
	if slices.Contains(c.Owns, Wallets) {
		s.wallet = &wallet{config: c, shards: databases, items: s.items, metrics: s.metrics}
	}
	return s, nil
}

// Run makes what the databases lack, and then looks for unfinished purchases until the
// context ends.
func (s *Store) Run(ctx context.Context) error {
	defer s.shards.Close()
	err := s.shards.Bootstrap(ctx, shards.Seed{Players: s.config.Players, Balance: s.config.Initial})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	s.config.Log.Info("ready", "owns", strings.Join(s.config.Owns, ", "))
	s.ready.Store(true)
	group, ctx := errgroup.WithContext(ctx)
	if s.wallet != nil && !s.config.NoLedger {
		group.Go(func() error { return every(ctx, s.config.RecoverEvery, s.wallet.recovery) })
	}
	if s.config.Inventory != nil {
		group.Go(func() error {
			return every(ctx, time.Second, func(context.Context) { s.config.Inventory.Prune(time.Now()) })
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		return nil
	})
	return group.Wait()
}

// every does something again and again until the context ends. What is due while it is
// being done is done once, afterwards.
func every(ctx context.Context, d time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}
