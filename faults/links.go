package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"relapse/topologies"
	"relapse/topologies/relay"
)

// validate checks the patterns of a fault on links.
func (l Links) validate() error {
	return patternError("links", `"nginx-* -> memcached"`, l.Links, func(p string) bool {
		_, ok := topologies.Link{}.Match(p)
		return ok
	})
}

// change is what a fault adds to a link at the relay.
type change struct {
	toxics []relay.Toxic
	rules  []relay.Rule
}

// onLinks is a fault on links: the same change at each of them, and one way to
// look at a link from outside.
type onLinks struct {
	relay  *relay.Client
	change change
	probes []*probe
	// look says whether a link shows the fault; see [onLinks.InEffect].
	look func(ctx context.Context, p *probe) (bool, error)

	mu      sync.Mutex
	touched map[string]bool // links that may hold some of the change
}

// arm finds the links of the patterns. The name is the kind with a number of
// the fault's own, since two faults of a kind may share a link.
func (l Links) arm(sys *topologies.System, kind string, rng *rand.Rand) (*onLinks, string, error) {
	var links []topologies.Link
	for _, pattern := range l.Links {
		matched := sys.Topology().MatchLinks(pattern)
		if len(matched) == 0 {
			return nil, "", fmt.Errorf("links: %q matches no link of topology %s; it has %s", pattern, sys.Topology().Name, linkNames(sys.Topology().Links))
		}
		links = append(links, matched...)
	}
	return armLinks(sys, links, kind, rng)
}

// armLinks makes a fault on links, which must all have a proxy.
func armLinks(sys *topologies.System, links []topologies.Link, kind string, rng *rand.Rand) (*onLinks, string, error) {
	a := &onLinks{relay: sys.Relay(), touched: map[string]bool{}}
	var seen []topologies.Link
	for _, link := range links {
		if slices.Contains(seen, link) {
			continue
		}
		seen = append(seen, link)
		if _, proxied := sys.Addressed().Links[link]; !proxied || a.relay == nil {
			return nil, "", fmt.Errorf("link %s: it has no proxy; start the topology with this link among the proxied ones", link)
		}
		p, err := newProbe(sys, link)
		if err != nil {
			return nil, "", err
		}
		a.probes = append(a.probes, p)
	}
	return a, fmt.Sprintf("%s-%08x", kind, rng.Uint32()), nil
}

func linkNames(links []topologies.Link) string {
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.String()
	}
	return strings.Join(names, ", ")
}

// needAnswers refuses links whose server is probed without a question.
func (a *onLinks) needAnswers() error {
	for _, p := range a.probes {
		if !p.answers() {
			return p.errNoAnswers()
		}
	}
	return nil
}

// needRule refuses a kernel that lacks what a rule needs.
func (a *onLinks) needRule(ctx context.Context, action relay.Action) error {
	capabilities, err := a.relay.Capabilities(ctx)
	if err != nil {
		return err
	}
	return capabilities.Check(action)
}

// Inject makes the change at every link at once.
func (a *onLinks) Inject(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := settled(ctx)
	defer cancel()
	return a.each(func(p *probe) error {
		link := p.link.String()
		// Noted first: a call whose answer is lost may have been obeyed.
		a.mu.Lock()
		a.touched[link] = true
		a.mu.Unlock()
		for _, t := range a.change.toxics {
			if err := a.relay.AddToxic(ctx, link, t); err != nil {
				return fmt.Errorf("link %s: %w", link, err)
			}
		}
		for _, r := range a.change.rules {
			if err := a.relay.AddRule(ctx, link, r); err != nil {
				return fmt.Errorf("link %s: %w", link, err)
			}
		}
		return nil
	})
}

// Undo takes the change away from the links that may hold it. The error says
// which ones still may.
func (a *onLinks) Undo(ctx context.Context) error {
	return a.each(func(p *probe) error {
		link := p.link.String()
		a.mu.Lock()
		touched := a.touched[link]
		a.mu.Unlock()
		if !touched {
			return nil
		}
		var err error
		for _, t := range a.change.toxics {
			err = errors.Join(err, notForced(a.relay.RemoveToxic(ctx, link, t.Name)))
		}
		for _, r := range a.change.rules {
			err = errors.Join(err, a.relay.RemoveRule(ctx, link, r.Name))
		}
		if err != nil {
			return fmt.Errorf("link %s may still hold the fault: %w", link, err)
		}
		a.mu.Lock()
		delete(a.touched, link)
		a.mu.Unlock()
		return nil
	})
}

// settleWithin bounds calls that inject.
const settleWithin = 5 * time.Second

// settled gives a context for calls that inject, which does not end with ctx: a
// call that is given up may still be obeyed, and by then Undo may have come and
// gone.
func settled(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
}

// notForced takes the removal of a stuck toxic for done: connections were
// closed to free the link, which is the way out, and nothing of the fault is
// left.
func notForced(err error) error {
	var forced *relay.ForcedError
	if errors.As(err, &forced) {
		return nil
	}
	return err
}

// InEffect looks at every link at once. All must show the fault, or none.
func (a *onLinks) InEffect(ctx context.Context) (bool, error) {
	var mu sync.Mutex
	var seen tally
	err := a.each(func(p *probe) error {
		yes, err := a.look(ctx, p)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		seen.add(p.link.String(), yes)
		return nil
	})
	if err != nil {
		return false, err
	}
	return seen.verdict()
}

// each does something for all links side by side, and gives all errors.
func (a *onLinks) each(do func(*probe) error) error {
	errs := make([]error, len(a.probes))
	var group errgroup.Group
	for i, p := range a.probes {
		group.Go(func() error {
			errs[i] = do(p)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// held says whether the relay reads the whole change back. It decides where a
// look from outside cannot, and confirms one that can.
func (a *onLinks) held(ctx context.Context, p *probe) (bool, error) {
	state, err := a.relay.State(ctx, p.link.String())
	if err != nil {
		return false, fmt.Errorf("link %s: %w", p.link, err)
	}
	for _, t := range a.change.toxics {
		if !slices.ContainsFunc(state.Toxics, func(have relay.Toxic) bool { return have.Name == t.Name }) {
			return false, nil
		}
	}
	for _, r := range a.change.rules {
		if !slices.ContainsFunc(state.Rules, func(have relay.RuleState) bool { return have.Name == r.Name }) {
			return false, nil
		}
	}
	return true, nil
}
