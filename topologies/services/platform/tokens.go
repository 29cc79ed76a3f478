package platform

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"relapse/topologies/services/platform/api"
)

// tokens are those of the players who have logged in, one for each. They are in memory:
// a session service that starts anew knows nobody, and players log in again.
type tokens struct {
	lasts time.Duration
	life  string // of the process

	mu  sync.Mutex
	rng *rand.Rand
	of  map[api.Player]token
}

type token struct {
	value string
	until time.Time
}

func newTokens(lasts time.Duration, life string, rng *rand.Rand) *tokens {
	return &tokens{lasts: lasts, life: life, rng: rng, of: map[api.Player]token{}}
}

// issue gives a player a new token in place of the one before. It is drawn from the
// seed: nothing here needs to be secret, but a token that was made up must not pass.
func (t *tokens) issue(p api.Player, now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	value := fmt.Sprintf("%s-%016x", t.life, t.rng.Uint64())
	t.of[p] = token{value, now.Add(t.lasts)}
	return value
}

// renew lets a token live on from now; false if it is not the player's, or has run
// out. The token stays the same one, so that a lost answer loses nothing.
func (t *tokens) renew(p api.Player, value string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	held, known := t.of[p]
	if !known || held.value != value || !now.Before(held.until) {
		return false
	}
	t.of[p] = token{value, now.Add(t.lasts)}
	return true
}

func (t *tokens) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of)
}
