package history_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/fleet/history"
	"relapse/topologies/services/matchmaking"
)

// protocol is a model of a fleet and of nodes that keep to the protocol. Every
// message takes its time, transfers fail and nodes restart, as the seed has it.
// Nothing that it does is a violation.
type protocol struct {
	rng     *rand.Rand
	now     time.Duration
	ahead   timeline
	steps   int
	checker *history.Checker

	servers []*gameServer
	nodes   []*matchmaker
	matches int

	happened map[string]int      // events by kind
	violated map[string]int      // by invariant
	first    []history.Violation // some of them
	frozen   map[int]bool        // servers that nobody touches, so that a defect stays
	steady   bool                // no node restarts any more
	misroute bool                // the next match that is reserved
}

type gameServer struct {
	id      int
	cluster string
	home    *matchmaker
	epoch   int64
	free    bool
	going   bool   // it is gone, or will be once its match is over
	match   string // that is on
}

type matchmaker struct {
	name    string
	cluster string
	life    int
	known   int // the last life that the fleet has noticed
	list    []matchmaking.Listed
}

// modes is the mode of each cluster.
var modes = map[string]string{"main": "default", "side": "small"}

// step is something that will happen.
type step struct {
	at     time.Duration
	number int // decides between steps of one time
	do     func()
}

type timeline []step

func (l timeline) Len() int { return len(l) }
func (l timeline) Less(i, j int) bool {
	return l[i].at < l[j].at || l[i].at == l[j].at && l[i].number < l[j].number
}
func (l timeline) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *timeline) Push(x any)   { *l = append(*l, x.(step)) }
func (l *timeline) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

// newProtocol has 60 servers in each of two clusters of two nodes.
func newProtocol(t *testing.T, seed uint64) *protocol {
	p := &protocol{
		rng: rand.New(rand.NewPCG(seed, 0)), checker: checker(t),
		happened: map[string]int{}, violated: map[string]int{}, frozen: map[int]bool{},
	}
	for _, cluster := range []string{"main", "side"} {
		for n := range 2 {
			p.nodes = append(p.nodes, &matchmaker{name: fmt.Sprintf("%s-%d", cluster, n), cluster: cluster})
		}
	}
	for i := range 120 {
		s := &gameServer{id: i, home: p.nodes[i%2]}
		if i >= 60 {
			s.id, s.home = 100+i, p.nodes[2+i%2]
		}
		s.cluster = s.home.cluster
		p.servers = append(p.servers, s)
		p.register(s)
	}
	for _, n := range p.nodes {
		p.within(time.Second, func() { p.snapshot(n) })
	}
	p.every(80*time.Millisecond, p.reserve)
	p.every(200*time.Millisecond, p.transfer)
	p.every(500*time.Millisecond, p.lose)
	p.every(10*time.Second, func() {
		if !p.steady {
			p.restart(p.nodes[p.rng.IntN(len(p.nodes))])
		}
	})
	return p
}

func (p *protocol) after(d time.Duration, do func()) {
	p.steps++
	heap.Push(&p.ahead, step{p.now + d, p.steps, do})
}

// within has something happen after up to d, evenly drawn.
func (p *protocol) within(d time.Duration, do func()) {
	p.after(time.Duration(p.rng.Int64N(int64(d))), do)
}

// every has something happen again and again, at most d apart.
func (p *protocol) every(d time.Duration, do func()) {
	p.within(d, func() {
		do()
		p.every(d, do)
	})
}

func (p *protocol) run(until time.Duration) {
	for p.ahead[0].at <= until {
		next := heap.Pop(&p.ahead).(step)
		p.now = next.at
		next.do()
	}
	p.now = until
}

func (p *protocol) add(e history.Event) {
	p.happened[fmt.Sprintf("%T", e)]++
	for _, v := range p.checker.Add(e) {
		p.violated[v.Invariant]++
		if len(p.first) < 3 {
			p.first = append(p.first, v)
		}
	}
}

func (n *matchmaker) index(server int) int {
	return slices.IndexFunc(n.list, func(e matchmaking.Listed) bool { return e.Server == server })
}

// put lists a server, in the place of an older entry of it.
func (n *matchmaker) put(s *gameServer, epoch int64) {
	is := matchmaking.Listed{
		Entry: matchmaking.Entry{Server: s.id, Region: regionOf(s.id), Epoch: epoch}, State: matchmaking.Free,
	}
	switch i := n.index(s.id); {
	case i < 0:
		n.list = append(n.list, is)
	case n.list[i].Epoch < epoch:
		n.list[i] = is
	}
}

func (n *matchmaker) remove(server int, epoch int64) {
	n.list = slices.DeleteFunc(n.list, func(e matchmaking.Listed) bool { return e.Server == server && e.Epoch == epoch })
}

// register tells a server's node that it is free.
func (p *protocol) register(s *gameServer) {
	s.epoch++
	s.free, s.match = true, ""
	n, life, epoch := s.home, s.home.life, s.epoch
	p.add(history.Registered{At: p.now, Server: s.id, Region: regionOf(s.id), Node: n.name, Epoch: epoch})
	p.within(300*time.Millisecond, func() {
		if n.life != life {
			return
		}
		n.put(s, epoch)
		p.within(100*time.Millisecond, func() {
			if n.life == life {
				p.add(history.Acknowledged{At: p.now, Server: s.id, Node: n.name, Epoch: epoch})
			}
		})
	})
}

// reserve has a node ask a server of its list, and then take it out: it is busy,
// or was not the node's to give.
func (p *protocol) reserve() {
	n := p.nodes[p.rng.IntN(len(p.nodes))]
	i := p.pick(n)
	if i < 0 {
		return
	}
	n.list[i].State = matchmaking.Reserving
	e, life := n.list[i].Entry, n.life
	p.within(50*time.Millisecond, func() {
		p.take(n, e)
		p.within(50*time.Millisecond, func() {
			if n.life == life {
				n.remove(e.Server, e.Epoch)
			}
		})
	})
}

// pick gives an entry of a node's list that may be handed out, or -1.
func (p *protocol) pick(n *matchmaker) int {
	var free []int
	for i, e := range n.list {
		if e.State == matchmaking.Free && !p.frozen[e.Server] {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return -1
	}
	return free[p.rng.IntN(len(free))]
}

func (p *protocol) take(n *matchmaker, e matchmaking.Entry) {
	s := p.server(e.Server)
	if !s.free || s.epoch != e.Epoch {
		return
	}
	p.matches++
	match := fmt.Sprintf("m%d", p.matches)
	s.free, s.match = false, match
	mode := modes[s.cluster]
	if p.misroute {
		mode = modes[map[string]string{"main": "side", "side": "main"}[s.cluster]]
		p.misroute = false
	}
	p.add(history.Reserved{At: p.now, Server: s.id, Epoch: e.Epoch, Match: match, Mode: mode, Node: n.name})
	p.after(time.Second+time.Duration(p.rng.Int64N(int64(3*time.Second))), func() {
		s.match = ""
		p.add(history.Ended{At: p.now, Server: s.id, Match: match})
		if s.going {
			p.leave(s)
			return
		}
		p.after(500*time.Millisecond, func() { p.register(s) })
	})
}

// lose has a server go that is free or in a match, and come back later at any node
// of its cluster. Nobody takes it out of the list that it is in.
func (p *protocol) lose() {
	s := p.servers[p.rng.IntN(len(p.servers))]
	if p.steady || s.going || !s.free && s.match == "" {
		return
	}
	s.going = true
	if s.free {
		p.leave(s)
	}
	p.after(4*time.Second+time.Duration(p.rng.Int64N(int64(3*time.Second))), func() {
		s.going = false
		if p.rng.IntN(2) == 0 {
			s.home = p.peer(s.home)
		}
		p.register(s)
	})
}

func (p *protocol) leave(s *gameServer) {
	s.free = false
	p.add(history.Gone{At: p.now, Server: s.id})
}

func (p *protocol) server(id int) *gameServer {
	i := slices.IndexFunc(p.servers, func(s *gameServer) bool { return s.id == id })
	return p.servers[i]
}

// transfer gives some servers of a node to the other one of its cluster. One in
// ten transfers does not arrive, and the donor takes back what it gave.
func (p *protocol) transfer() {
	donor := p.nodes[p.rng.IntN(len(p.nodes))]
	receiver := p.peer(donor)
	if p.rng.IntN(10) == 0 {
		receiver = donor
	}
	life := donor.life
	for range 1 + p.rng.IntN(3) {
		i := p.pick(donor)
		if i < 0 {
			return
		}
		donor.list[i].State = matchmaking.Held
		e := donor.list[i].Entry
		p.within(300*time.Millisecond, func() {
			p.move(e, donor, receiver)
			p.within(300*time.Millisecond, func() {
				if donor.life == life {
					donor.remove(e.Server, e.Epoch)
				}
			})
		})
	}
}

func (p *protocol) move(e matchmaking.Entry, from, to *matchmaker) {
	s := p.server(e.Server)
	if !s.free || s.epoch != e.Epoch {
		return
	}
	s.epoch++
	s.home = to
	epoch, life := s.epoch, to.life
	p.add(history.Moved{At: p.now, Server: s.id, From: from.name, To: to.name, Epoch: epoch, Transfer: fmt.Sprintf("t%d", p.steps)})
	p.within(300*time.Millisecond, func() {
		if to.life == life {
			to.put(s, epoch)
		}
	})
}

// restart has a node forget everything. The fleet notices a moment later.
func (p *protocol) restart(n *matchmaker) {
	n.life++
	n.list = nil
	p.within(500*time.Millisecond, func() { p.notice(n) })
}

func (p *protocol) notice(n *matchmaker) {
	if n.known == n.life {
		return
	}
	n.known = n.life
	p.add(history.Restarted{At: p.now, Node: n.name})
	for _, s := range p.servers {
		if s.home == n && s.free {
			p.register(s)
		}
	}
}

func (p *protocol) snapshot(n *matchmaker) {
	began, life := p.now, n.life
	p.after(time.Second, func() { p.snapshot(n) })
	p.within(100*time.Millisecond, func() {
		list := slices.Clone(n.list)
		p.within(200*time.Millisecond, func() {
			if n.life != life {
				return
			}
			p.notice(n)
			p.add(history.Seen{At: p.now, Node: n.name, Began: began, Entries: list})
		})
	})
}

// listed gives a server that is free, and its place in the list of its node.
func (p *protocol) listed(t *testing.T) (*gameServer, *matchmaker, int) {
	t.Helper()
	for _, n := range p.nodes {
		for i, e := range n.list {
			s := p.server(e.Server)
			if e.State == matchmaking.Free && s.free && s.epoch == e.Epoch && s.epoch > 1 && s.home == n && n.known == n.life {
				return s, n, i
			}
		}
	}
	t.Fatalf("at %v no free server is in the list of its node", p.now)
	return nil, nil, 0
}

func (p *protocol) peer(n *matchmaker) *matchmaker {
	return p.nodes[slices.IndexFunc(p.nodes, func(o *matchmaker) bool { return o != n && o.cluster == n.cluster })]
}

const seeds = 10

func TestWhoKeepsToTheProtocolViolatesNothing(t *testing.T) {
	for seed := range uint64(seeds) {
		p := newProtocol(t, seed)
		p.run(30 * time.Second)
		for _, kind := range []history.Event{
			history.Registered{}, history.Acknowledged{}, history.Reserved{}, history.Ended{}, history.Moved{}, history.Gone{}, history.Restarted{}, history.Seen{},
		} {
			if name := fmt.Sprintf("%T", kind); p.happened[name] == 0 {
				t.Errorf("seed %d: no %s happened", seed, name)
			}
		}
		if len(p.violated) > 0 {
			t.Errorf("seed %d: have %v, want no violation; the first ones:\n%v", seed, p.violated, p.first)
		}
		if have := p.checker.Missing(); have != 0 {
			t.Errorf("seed %d: have %d missing, want none", seed, have)
		}
	}
}

func TestADefectIsFound(t *testing.T) {
	for _, tc := range []struct {
		name   string
		inject func(t *testing.T, p *protocol)
		want   string // the only invariant that is violated
	}{
		{"a server takes a second match", func(t *testing.T, p *protocol) {
			i := slices.IndexFunc(p.servers, func(s *gameServer) bool { return s.match != "" })
			if i < 0 {
				t.Fatal("no server is in a match")
			}
			s := p.servers[i]
			p.add(history.Reserved{At: p.now, Server: s.id, Epoch: s.epoch, Match: "second", Mode: modes[s.cluster], Node: s.home.name})
		}, history.TwoMatches},
		{"a server takes a match under an old epoch", func(t *testing.T, p *protocol) {
			s, n, _ := p.listed(t)
			p.add(history.Reserved{At: p.now, Server: s.id, Epoch: s.epoch - 1, Match: "old", Mode: modes[s.cluster], Node: n.name})
		}, history.TwoMatches},
		{"a server takes a match though it is gone", func(t *testing.T, p *protocol) {
			s, n, _ := p.listed(t)
			p.leave(s)
			p.add(history.Reserved{At: p.now, Server: s.id, Epoch: s.epoch, Match: "ghost", Mode: modes[s.cluster], Node: n.name})
		}, history.NotThere},
		{"a node drops an entry", func(t *testing.T, p *protocol) {
			_, n, i := p.listed(t)
			n.list = slices.Delete(n.list, i, i+1)
		}, history.Lost},
		{"two nodes list a server", func(t *testing.T, p *protocol) {
			s, n, i := p.listed(t)
			p.frozen[s.id] = true
			other := p.peer(n)
			other.list = append(other.list, n.list[i])
		}, history.ListedTwice},
		{"a node lists a server twice", func(t *testing.T, p *protocol) {
			s, n, i := p.listed(t)
			p.frozen[s.id] = true
			n.list = append(n.list, n.list[i])
		}, history.ListedTwice},
		{"a node mistakes a region", func(t *testing.T, p *protocol) {
			s, n, i := p.listed(t)
			p.frozen[s.id] = true
			n.list[i].Region = "mars"
		}, history.Region},
		{"a node makes a server up", func(_ *testing.T, p *protocol) {
			p.frozen[9999] = true
			p.nodes[0].put(&gameServer{id: 9999}, 1)
		}, history.Unknown},
		{"a match goes to the other cluster", func(_ *testing.T, p *protocol) {
			p.misroute = true
		}, history.Misrouted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				p := newProtocol(t, seed)
				p.run(8 * time.Second)
				p.steady = true
				p.run(9 * time.Second) // every restart has been noticed
				tc.inject(t, p)
				p.run(15 * time.Second)
				if len(p.violated) != 1 || p.violated[tc.want] == 0 {
					t.Errorf("seed %d: have %v, want only %s; the first ones:\n%v", seed, p.violated, tc.want, p.first)
				}
			}
		})
	}
}
