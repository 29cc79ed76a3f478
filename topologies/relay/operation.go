package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
)

// Deadlines of an operation on a link's toxics. It takes well under a
// millisecond unless a receiver does not read.
const (
	absorbAfter  = 10 * time.Millisecond  // then blocked receivers' bytes are kept aside
	closeAfter   = 3 * time.Second        // then the link's connections are closed
	rebuildAfter = 500 * time.Millisecond // after that, the link gets new chains
)

func addrOnly(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), 0) }

func direction(s string) (stream.Direction, error) {
	switch s {
	case Upstream:
		return stream.Upstream, nil
	case Downstream:
		return stream.Downstream, nil
	default:
		return 0, fmt.Errorf("stream %q: must be %s or %s", s, Upstream, Downstream)
	}
}

// addToxic adds a toxic, or gives one of the same name and type new attributes.
func (l *link) addToxic(ctx context.Context, t Toxic) error {
	attributes, err := l.check(t)
	if err != nil {
		return &RequestError{Link: l.Name, Operation: describe("add", t.Name), Problem: err.Error()}
	}
	dir, _ := direction(t.Stream)
	return l.operate(ctx, describe("add", t.Name), func(e *engine) error {
		if old, ok := l.find(t.Name); ok {
			if old.Type != t.Type || old.Stream != t.Stream {
				return &RequestError{Link: l.Name, Operation: describe("add", t.Name),
					Problem: fmt.Sprintf("a toxic of that name is there with type %s on %s: remove it first", old.Type, old.Stream)}
			}
			if err := old.runs.UnmarshalJSON(attributes); err != nil {
				return err
			}
			l.note(added{Toxic: t, runs: old.runs})
			return nil
		}
		l.active[dir].Add(1) // bytes go through the chain from here on
		runs, err := e.add(t, attributes)
		if err != nil {
			l.active[dir].Add(-1)
			return err
		}
		if !l.current(e) {
			return nil // came free only after the link was rebuilt without it
		}
		l.note(added{Toxic: t, runs: runs})
		return nil
	})
}

// check refuses a toxic before anything is changed, and gives the attributes as
// toxiproxy is to see them.
func (l *link) check(t Toxic) (json.RawMessage, error) {
	if t.Name == "" {
		return nil, errors.New("a toxic needs a name")
	}
	if _, err := direction(t.Stream); err != nil {
		return nil, err
	}
	newToxic, ok := types[t.Type]
	if !ok {
		return nil, fmt.Errorf("type %q: must be one of %s", t.Type, strings.Join(ToxicTypes(), ", "))
	}
	attributes, err := t.attributes()
	if err != nil {
		return nil, err
	}
	trial := newToxic()
	err = trial.UnmarshalJSON(attributes)
	shaper, shares := trial.(*shaped)
	if err != nil || !shares {
		return attributes, err
	}
	// The trial took part in a bucket under the name as given; what runs takes
	// part in this relay's.
	shaper.drop()
	scoped := *shaper.get()
	scoped.Bucket = l.scope + scoped.Bucket
	return json.Marshal(scoped)
}

// removeToxic is idempotent.
func (l *link) removeToxic(ctx context.Context, name string) error {
	return l.operate(ctx, describe("remove", name), func(e *engine) error {
		t, ok := l.find(name)
		if !ok {
			return nil
		}
		// What is held begins to flow at once, also on connections whose
		// stream has ended and which toxiproxy no longer lists.
		t.runs.release()
		if err := e.collection.RemoveToxic(context.Background(), name); err != nil && !errors.Is(err, toxiproxy.ErrToxicNotFound) {
			return err
		}
		l.unnote(name)
		return nil
	})
}

func (e *engine) add(t Toxic, attributes json.RawMessage) (toxic, error) {
	request, err := json.Marshal(map[string]any{
		"name": t.Name, "type": t.Type, "stream": t.Stream, "toxicity": 1, "attributes": attributes,
	})
	if err != nil {
		return nil, err
	}
	wrapper, err := e.collection.AddToxicJson(strings.NewReader(string(request)))
	if err != nil {
		return nil, err
	}
	runs, ok := wrapper.Toxic.(toxic)
	if !ok {
		return nil, fmt.Errorf("type %s is registered as a toxic of another kind", t.Type)
	}
	return runs, nil
}

func (l *link) find(name string) (added, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.toxics, func(a added) bool { return a.Name == name })
	if i < 0 {
		return added{}, false
	}
	return l.toxics[i], true
}

func (l *link) note(a added) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.toxics, func(o added) bool { return o.Name == a.Name }); i >= 0 {
		l.toxics[i] = a
		return
	}
	l.toxics = append(l.toxics, a)
}

func (l *link) unnote(name string) {
	l.mu.Lock()
	i := slices.IndexFunc(l.toxics, func(a added) bool { return a.Name == name })
	if i < 0 {
		l.mu.Unlock()
		return
	}
	t := l.toxics[i]
	l.toxics = slices.Delete(slices.Clone(l.toxics), i, i+1)
	l.mu.Unlock()
	retire(t.runs)
	if dir, err := direction(t.Stream); err == nil {
		l.active[dir].Add(-1)
	}
}

// operate runs one operation on the link's chains with a way out. Toxiproxy
// holds a lock while it waits for every connection's chain to be interrupted,
// and a chain whose receiver does not read cannot be. So blocked receivers'
// bytes are kept aside for the time of the operation; if that does not free it,
// the connections are closed; and if that does not, the link gets new chains.
func (l *link) operate(ctx context.Context, what string, do func(*engine) error) error {
	select {
	case <-l.operating:
	case <-ctx.Done():
		return fmt.Errorf("link %s: %s: waiting for the operation before it: %w", l.Name, what, ctx.Err())
	}
	defer func() { l.operating <- struct{}{} }()
	l.mu.Lock()
	e := l.engine
	l.mu.Unlock()
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- do(e) }()

	open := l.open()
	defer func() {
		for _, c := range open {
			c.each((*outlet).release)
		}
	}()
	tick := time.NewTicker(absorbAfter)
	defer tick.Stop()
	for time.Since(start) < closeAfter {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			open = l.open()
			for _, c := range open {
				c.each((*outlet).absorb)
			}
		}
	}
	forced := &ForcedError{Link: l.Name, Operation: what, After: closeAfter, Closed: l.abortAll()}
	select {
	case err := <-done:
		return errors.Join(err, forced)
	case <-time.After(rebuildAfter):
	}
	forced.Closed += l.rebuild()
	forced.Rebuilt = true
	if err := l.redo(do); err != nil {
		return errors.Join(err, forced)
	}
	return forced
}

// rebuild gives the link new chains with the toxics it has. Nothing is left of
// the old ones but the goroutines that are stuck in them.
func (l *link) rebuild() int {
	fresh := newEngine(l.Link)
	l.mu.Lock()
	l.engine = fresh
	toxics := slices.Clone(l.toxics)
	l.mu.Unlock()
	for i, t := range toxics {
		attributes, err := l.check(t.Toxic)
		if err == nil {
			toxics[i].runs, err = fresh.add(t.Toxic, attributes)
		}
		if err != nil {
			l.log.Error("rebuilding a link's toxics", "toxic", t.Name, "error", err)
			continue
		}
		retire(t.runs)
		l.note(toxics[i])
	}
	return l.abortAll()
}

func (l *link) current(e *engine) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.engine == e
}

func (l *link) redo(do func(*engine) error) error {
	l.mu.Lock()
	e := l.engine
	l.mu.Unlock()
	return do(e) // no connection is in the new chains that could block it
}

// each runs a method of both outlets, once they are there.
func (c *connection) each(do func(*outlet)) {
	c.mu.Lock()
	outlets := c.outlets
	c.mu.Unlock()
	for _, o := range outlets {
		if o != nil {
			do(o)
		}
	}
}
