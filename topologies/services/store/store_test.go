package store_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/store"
	"relapse/topologies/services/store/pgtest"
)

// TestOperations goes through one player's day; each step goes on from the one before.
func TestOperations(t *testing.T) {
	c := config(pgtest.Databases(t, 2))
	r := newRig(t, c)
	const p = api.Player(7)
	if have, want := r.wallet(t, p), (store.Wallet{Balance: initial}); have != want {
		t.Errorf("before anything: have %+v, want %+v", have, want)
	}
	for _, step := range []struct {
		name    string
		path    string
		o       operation
		status  int
		balance int64 // of the answer
		left    int64
		items   []string
	}{
		{"bought", "/buy", operation{"op-1", p, dear, 0}, 200, 500, 500, []string{dear}},
		{"the same again", "/buy", operation{"op-1", p, dear, 0}, 200, 500, 500, []string{dear}},
		{"another operation", "/buy", operation{"op-2", p, dear, 0}, 409, 0, 500, []string{dear}},
		{"and that again", "/buy", operation{"op-2", p, dear, 0}, 409, 0, 500, []string{dear}},
		{"an id given twice", "/buy", operation{"op-1", p, cheap, 0}, 409, 0, 500, []string{dear}},
		{"another item", "/buy", operation{"op-3", p, cheap, 0}, 200, 400, 400, []string{cheap, dear}},
		{"too dear", "/buy", operation{"op-4", p, dearer, 0}, 409, 0, 400, []string{cheap, dear}},
		{"granted", "/grant", operation{"op-5", p, "", 150}, 200, 550, 550, []string{cheap, dear}},
		{"granted again", "/grant", operation{"op-5", p, "", 150}, 200, 550, 550, []string{cheap, dear}},
		{"another grant by that id", "/grant", operation{"op-5", p, "", 100}, 409, 0, 550, []string{cheap, dear}},
		{"a grant by a purchase's id", "/grant", operation{"op-1", p, "", 500}, 409, 0, 550, []string{cheap, dear}},
		{"what was too dear", "/buy", operation{"op-4", p, dearer, 0}, 200, 50, 50, []string{cheap, dear, dearer}},
		{"the first answer is remembered", "/buy", operation{"op-1", p, dear, 0}, 200, 500, 50, []string{cheap, dear, dearer}},
		{"equipped", "/equip", operation{"op-6", p, dear, 0}, 200, 0, 50, []string{cheap, dear, dearer}},
		{"not to be equipped", "/equip", operation{"op-7", p, "skin-02", 0}, 409, 0, 50, []string{cheap, dear, dearer}},
	} {
		status, balance := r.post(t, step.path, step.o)
		if status != step.status || balance != step.balance {
			t.Errorf("%s: have %d and %d, want %d and %d", step.name, status, balance, step.status, step.balance)
		}
		r.has(t, p, step.left, step.items...)
	}
	if have := r.inventory(t, p).Equipped; have != dear {
		t.Errorf("equipped: have %q, want %q", have, dear)
	}
	if status, _ := r.post(t, "/equip", operation{"op-8", p, cheap, 0}); status != http.StatusOK || r.inventory(t, p).Equipped != cheap {
		t.Errorf("equipped after that: have %q, want %q", r.inventory(t, p).Equipped, cheap)
	}
	for outcome, want := range map[string]float64{"ok": 3, "replayed": 2, "owned": 2, "op_reused": 1, "not_enough": 1, "locked": 0} {
		if have := value(t, r.registry, "relapse_purchases_total", outcome); have != want {
			t.Errorf("%s: have %v purchases, want %v", outcome, have, want)
		}
	}
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

// TestANode has tests share a node, each with players of its own.
func TestANode(t *testing.T) {
	r := newRig(t, config(pgtest.Databases(t, 1)))
	for name, test := range map[string]func(*testing.T, *rig){
		"the version rises": theVersionRises, "requests that are refused": requestsThatAreRefused, "the catalog": theCatalog,
	} {
		t.Run(name, func(t *testing.T) { test(t, r) })
	}
}

func theVersionRises(t *testing.T, r *rig) {
	last := r.wallet(t, 3).Version
	for _, do := range []func(){
		func() { r.buy(t, "op-1", 3, cheap) },
		func() { r.post(t, "/grant", operation{Op: "op-2", Player: 3, Amount: 5}) },
		func() { r.buy(t, "op-3", 3, dear) },
	} {
		do()
		have := r.wallet(t, 3).Version
		if have <= last {
			t.Errorf("have version %d after %d, want a higher one", have, last)
		}
		last = have
	}
}

func requestsThatAreRefused(t *testing.T, r *rig) {
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/wallet", "", 400},
		{"GET", "/wallet?player=x", "", 400},
		{"GET", "/wallet?player=-1", "", 400},
		{"GET", "/inventory?player=", "", 400},
		{"POST", "/buy", "", 400},
		{"POST", "/buy", `{"op":"o","player":1,"item":"skin-01","price":1}`, 400},
		{"POST", "/buy", `{"player":1,"item":"skin-01"}`, 400},
		{"POST", "/buy", `{"op":"o","player":-1,"item":"skin-01"}`, 400},
		{"POST", "/buy", `{"op":"o","player":1,"item":"skin-99"}`, 404},
		{"POST", "/buy", `{"op":"` + strings.Repeat("o", 129) + `","player":1,"item":"skin-01"}`, 400},
		{"POST", "/equip", `{"op":"o","player":1}`, 404},
		{"POST", "/grant", `{"op":"o","player":1,"amount":0}`, 400},
		{"POST", "/grant", `{"op":"o","player":1,"amount":-5}`, 400},
		{"POST", "/grant", `{"op":"","player":1,"amount":5}`, 400},
		{"POST", "/items", `{"op":"o","player":1,"price":5}`, 400},
		{"POST", "/items", `{"op":"o","player":1,"item":"skin-01","price":-5}`, 400},
		{"GET", "/buy", "", 405},
		{"GET", "/nothing", "", 404},
		{"GET", "/health", "", 200},
	} {
		if have := r.call(t, c.method, c.path, c.body, nil); have != c.want {
			t.Errorf("%s %s %s: have %d, want %d", c.method, c.path, c.body, have, c.want)
		}
	}
	r.has(t, 1, initial)
}

func theCatalog(t *testing.T, r *rig) {
	var have []store.Item
	if status := r.call(t, http.MethodGet, "/catalog", "", &have); status != http.StatusOK {
		t.Fatalf("have %d, want 200", status)
	}
	if !slices.Equal(have, store.Catalog(10)) || len(have) != 10 || have[0] != (store.Item{Item: cheap, Price: 100}) || have[4] != (store.Item{Item: dear, Price: 500}) {
		t.Errorf("have %v", have)
	}
}

// TestTwoNodes has wallets and inventories on two nodes, which share the databases.
func TestTwoNodes(t *testing.T) {
	c := config(pgtest.Databases(t, 2))
	c.Owns = []string{store.Inventories}
	inventories := newRig(t, c)
	_, client := between(t, inventories.handler)
	c.Owns, c.Inventory = []string{store.Wallets}, client
	wallets := newRig(t, c)
	const p = api.Player(9)
	if status, balance := wallets.buy(t, "op-1", p, dear); status != http.StatusOK || balance != 500 {
		t.Errorf("have %d and %d, want 200 and 500", status, balance)
	}
	if status, _ := wallets.buy(t, "op-2", p, dear); status != http.StatusConflict {
		t.Errorf("owned: have %d, want 409", status)
	}
	wallets.has(t, p, 500, dear)
	for item, want := range map[string]int{dear: 200, cheap: 409} {
		if have, _ := wallets.post(t, "/equip", operation{Op: "op-3", Player: p, Item: item}); have != want {
			t.Errorf("equip %s: have %d, want %d", item, have, want)
		}
	}
	if have := inventories.inventory(t, p); have.Equipped != dear {
		t.Errorf("equipped: have %q, want %q", have.Equipped, dear)
	}
	for _, path := range []string{"/wallet?player=9", "/buy"} {
		if have := inventories.call(t, http.MethodGet, path, "", nil); have != http.StatusNotFound {
			t.Errorf("%s of the node with inventories: have %d, want 404", path, have)
		}
	}
	if have := wallets.call(t, http.MethodPost, "/items", "{}", nil); have != http.StatusNotFound {
		t.Errorf("items of the node with wallets: have %d, want 404", have)
	}
	if have := violations(t, c); len(have) > 0 {
		t.Errorf("have violations %v, want none", have)
	}
}

func TestNewRefuses(t *testing.T) {
	_, client := between(t, http.NotFoundHandler())
	for name, change := range map[string]func(*store.Config){
		"owns nothing":                   func(c *store.Config) { c.Owns = nil },
		"owns something else":            func(c *store.Config) { c.Owns = []string{"shoes"} },
		"wallets alone":                  func(c *store.Config) { c.Owns = []string{store.Wallets} },
		"inventories here and elsewhere": func(c *store.Config) { c.Inventory = client },
		"no items":                       func(c *store.Config) { c.Items = 0 },
		"a debt":                         func(c *store.Config) { c.Initial = -1 },
		"fewer players than none":        func(c *store.Config) { c.Players = -1 },
		"no lease":                       func(c *store.Config) { c.Lease = 0 },
		"no recovery":                    func(c *store.Config) { c.RecoverEvery = 0 },
		"no memory":                      func(c *store.Config) { c.Remember = 0 },
		"a wait below zero":              func(c *store.Config) { c.BeforeGrant = -1 },
		"no limit":                       func(c *store.Config) { c.Limit = 0 },
		"no databases":                   func(c *store.Config) { c.Shards.Databases = nil },
	} {
		c := config([]string{"127.0.0.1:1"})
		change(&c)
		if _, err := newStore(c); err == nil || strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%s: have %v, want an error", name, err)
		}
	}
	if _, err := newStore(config([]string{"127.0.0.1:1"})); err != nil {
		t.Errorf("what is changed above: %v", err)
	}
}
