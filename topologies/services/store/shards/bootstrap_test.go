package shards_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"relapse/topologies/services/store/pgtest"
	"relapse/topologies/services/store/shards"
)

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]shards.Config{
		"no databases":          {},
		"a database twice":      {Databases: []string{"a:1", "a:1"}},
		"no port":               {Databases: []string{"a"}},
		"an empty name":         {Databases: []string{"a:1/"}},
		"too wide a spread":     {Databases: []string{"a:1"}, Spread: 2},
		"a negative spread":     {Databases: []string{"a:1"}, Spread: -1},
		"an unknown scheme":     {Databases: []string{"a:1"}, Scheme: "luck"},
		"one connection":        {Databases: []string{"a:1"}, Connections: 1},
		"a negative time limit": {Databases: []string{"a:1"}, Timeout: -1},
	} {
		if _, err := shards.Open(c, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// counts gives how many tables each database serves.
func counts(t *testing.T, s *shards.Shards) (tables []int) {
	t.Helper()
	found := s.Survey(t.Context())
	if err := found.Missing(); err != nil {
		t.Fatal(err)
	}
	for _, rows := range found.Rows {
		n := 0
		for _, r := range rows {
			if shards.Serving(r.State) {
				n++
			}
		}
		tables = append(tables, n)
	}
	return tables
}

// players gives how many wallets each database has.
func players(t *testing.T, s *shards.Shards) (wallets []int) {
	t.Helper()
	for d := range s.Len() {
		sum := 0
		for _, table := range s.Homes()[d] {
			n := 0
			if err := s.Pool(d).QueryRow(t.Context(), "select count(*) from "+shards.Wallet.Table(table)).Scan(&n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		wallets = append(wallets, sum)
	}
	return wallets
}

func TestBootstrap(t *testing.T) {
	for _, c := range []struct {
		name   string
		spread int
		scheme shards.Scheme
		tables []int
		sums   []int // of wallets, where they follow from the scheme
	}{
		{"all", 0, shards.ByTable, []int{32, 32}, nil},
		{"one of two", 1, shards.ByTable, []int{64, 0}, []int{200, 0}},
		{"hash-mod-n", 0, shards.ByModulus, []int{64, 64}, []int{100, 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := shards.Config{Databases: pgtest.Databases(t, 2), Spread: c.spread, Scheme: c.scheme, Timeout: 5 * time.Second}
			var group errgroup.Group
			for range 3 {
				s := open(t, config, nil)
				group.Go(func() error { return s.Bootstrap(t.Context(), shards.Seed{Players: 200, Balance: 1000}) })
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			s, _ := ready(t, config) // and again
			if have := counts(t, s); !slices.Equal(have, c.tables) {
				t.Errorf("tables: have %v, want %v", have, c.tables)
			}
			have, sum := players(t, s), 0
			for _, n := range have {
				sum += n
			}
			if sum != 200 || c.sums != nil && !slices.Equal(have, c.sums) {
				t.Errorf("wallets: have %v, want %v, 200 in all", have, c.sums)
			}
			other := shards.ByTable
			if c.scheme == other {
				other = shards.ByModulus
			}
			config.Scheme = other
			if err := open(t, config, nil).Bootstrap(t.Context(), shards.Seed{}); !errors.Is(err, shards.ErrScheme) {
				t.Errorf("under the other scheme: have %v, want ErrScheme", err)
			}
		})
	}
}

func TestBootstrapWaitsForADatabase(t *testing.T) {
	databases := append(pgtest.Databases(t, 1), "127.0.0.1:1")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	s := open(t, shards.Config{Databases: databases}, nil)
	if err := s.Bootstrap(ctx, shards.Seed{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("have %v, want the context's end", err)
	}
	if have := s.Homes()[0]; len(have) > 0 {
		t.Errorf("have %d tables on one of two databases, want none: the other may have them", len(have))
	}
}
