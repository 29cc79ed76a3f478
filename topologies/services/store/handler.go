package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"relapse/topologies/services/matchmaking"
)

// Calls, as limits and metrics have them.
const (
	callWallet    = "wallet"
	callInventory = "inventory"
	callCatalog   = "catalog"
	callBuy       = "buy"
	callEquip     = "equip"
	callGrant     = "grant"
	callItems     = "items"
)

var calls = []string{callWallet, callInventory, callCatalog, callBuy, callEquip, callGrant, callItems}

// Outcomes of a call that no error of the store stands for.
const (
	done        = "ok"
	unavailable = "unavailable" // or whether it was done is not known
	shed        = "shed"
)

// refusals are the errors that callers can do something about.
var refusals = []struct {
	err     error
	status  int
	outcome string
}{
	{ErrNotEnough, http.StatusConflict, "not_enough"},
	{ErrOwned, http.StatusConflict, "owned"},
	{ErrNotOwned, http.StatusConflict, "not_owned"},
	{ErrOpReused, http.StatusConflict, "op_reused"},
	{ErrLocked, http.StatusLocked, "locked"},
	{ErrUnknownItem, http.StatusNotFound, "unknown_item"},
	{ErrMalformed, http.StatusBadRequest, "malformed"},
}

// outcomes lists all of them.
func outcomes() []string {
	all := []string{done, unavailable, shed}
	for _, r := range refusals {
		all = append(all, r.outcome)
	}
	return all
}

func sorted(err error) (status int, outcome string) {
	if err == nil {
		return http.StatusOK, done
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.status, r.outcome
		}
	}
	return http.StatusServiceUnavailable, unavailable
}

// Handler answers players and other services:
//
//	GET /wallet?player=P     Wallet
//	GET /inventory?player=P  Inventory
//	GET /catalog             a list of Item; caches may keep it
//	POST /buy    {"op","player","item"}   {"balance"}; 409 not enough, or owned; 423 another purchase of the player is unfinished
//	POST /equip  {"op","player","item"}   200; 409 not owned
//	POST /grant  {"op","player","amount"} {"balance"}
//	POST /items  {"op","player","item","price"}  {"made"}, by the node with wallets; 409 another purchase's
//
// All answer 400 to what is malformed, 404 to an item that there is not, and 503 where
// it is not known whether it was done: the same operation may then be sent again. A
// node without wallets has no wallet, buy and grant; one without inventories passes on
// inventory and equip, and has no items. GET /health is answered always, GET /ready once
// the databases are: before, the connection is closed without an answer.
func (s *Store) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern, call, cache string, do func(ctx context.Context, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", cache)
			s.answer(w, r, call, do)
		})
	}
	const everybodys, ones = "public, max-age=60", "private, no-store"
	handle("GET /catalog", callCatalog, everybodys, func(context.Context, *http.Request) (any, error) { return s.catalog, nil })
	handle("GET /inventory", callInventory, ones, s.getInventory)
	handle("POST /equip", callEquip, ones, s.postEquip)
	if s.wallet != nil {
		handle("GET /wallet", callWallet, ones, s.getWallet)
		handle("POST /buy", callBuy, ones, s.postBuy)
		handle("POST /grant", callGrant, ones, s.postGrant)
	}
	if s.config.Inventory == nil {
		handle("POST /items", callItems, ones, s.postItems)
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			// Whoever waits for a node takes any answer for one, a 503 too.
			panic(http.ErrAbortHandler)
		}
	})
	return mux
}

// errNotReady says that the databases have yet to answer for the first time.
var errNotReady = errors.New("the databases are not ready; ask again later")

// errShed says that too many requests are in flight.
var errShed = errors.New("too many requests are in flight; ask again later")

func (s *Store) answer(w http.ResponseWriter, r *http.Request, call string, do func(ctx context.Context, r *http.Request) (any, error)) {
	began := time.Now()
	fail := func(err error, status int) {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Cache-Control", "no-store") // an error is no answer to keep
		http.Error(w, err.Error(), status)
	}
	if !s.ready.Load() {
		s.metrics.handled[handledAs{call, unavailable}].Inc()
		fail(errNotReady, http.StatusServiceUnavailable)
		return
	}
	release, ok := s.limits.Take(call)
	if !ok {
		s.metrics.handled[handledAs{call, shed}].Inc()
		fail(errShed, http.StatusServiceUnavailable)
		return
	}
	defer release()
	with, err := do(r.Context(), r)
	status, outcome := sorted(err)
	s.metrics.handled[handledAs{call, outcome}].Inc()
	s.metrics.seconds[call].Observe(time.Since(began).Seconds())
	if outcome == unavailable {
		err = fmt.Errorf("whether it was done is not known; send the same operation again: %w", err)
	}
	if err != nil {
		fail(err, status)
		return
	}
	matchmaking.Answer(w, status, with)
}
