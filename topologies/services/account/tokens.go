package account

import (
	"bytes"
	"fmt"
	"sync"
)

// minValueSize leaves room for the longest token's name in its value.
const minValueSize = 100

// tokens are the ones that the application knows.
type tokens struct {
	size int

	mu     sync.RWMutex
	known  map[string]struct{}
	issued int
}

func newTokens(preloaded, size int) *tokens {
	t := &tokens{size: size, known: make(map[string]struct{}, preloaded)}
	for n := range preloaded {
		t.known[TokenName(n)] = struct{}{}
	}
	return t
}

// issue makes a new token. Its name is a running number: nothing here needs to
// be secret, and equal runs should have equal tokens.
func (t *tokens) issue() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.issued++
	token := fmt.Sprintf("login-%d", t.issued)
	t.known[token] = struct{}{}
	return token
}

// end forgets a token; false if it was not known.
func (t *tokens) end(token string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.known[token]
	delete(t.known, token)
	return known
}

// value gives what is kept of a token: JSON, filled up to the value size.
func (t *tokens) value(token string) ([]byte, bool) {
	t.mu.RLock()
	_, known := t.known[token]
	t.mu.RUnlock()
	if !known {
		return nil, false
	}
	const tail = "\"}\n"
	b := bytes.NewBuffer(make([]byte, 0, t.size))
	fmt.Fprintf(b, "{\"token\":%q,\"claims\":\"", token)
	for b.Len() < t.size-len(tail) {
		b.WriteByte('x')
	}
	b.WriteString(tail)
	return b.Bytes(), true
}
