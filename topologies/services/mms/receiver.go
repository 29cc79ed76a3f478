package mms

import (
	"net/http"
	"sync"

	"relapse/topologies/services/matchmaking"
)

// mostAnswers is how many transfers a receiver remembers its answers to. A donor
// has [mostGiving] in flight, and sends each for some seconds at most.
const mostAnswers = 1024

// serveTransfer takes servers over from a peer: 200 with those that have moved.
// However often a transfer comes it is carried out once, and answered alike.
func (n *Node) serveTransfer(w http.ResponseWriter, r *http.Request) {
	var t matchmaking.Transfer
	if !matchmaking.Read(w, r, &t) {
		return
	}
	if t.ID == "" {
		http.Error(w, "id: a transfer has one, by which it is known when it comes again", http.StatusBadRequest)
		return
	}
	if err := n.known(t.Entries); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, first := n.Defect.answerTo(t.ID, n.received)
	if first {
		go n.receive(t, a)
	}
	select {
	case <-a.given:
		matchmaking.Answer(w, http.StatusOK, matchmaking.Moved{Entries: a.moved})
	case <-r.Context().Done(): // nobody reads an answer
	case <-n.life.Done():
		http.Error(w, "the node ends", http.StatusServiceUnavailable)
	}
}

// receive asks the servers of a transfer whether they move, and lists those that
// do: none that is gone. It goes on when the donor has stopped waiting: what the servers were asked may
// have been done, and then they are registered here and nowhere else.
func (n *Node) receive(t matchmaking.Transfer, a *answer) {
	moved, ok := t.Entries, true
	if !n.Defect.listsUnasked() {
		moved, ok = n.move(t.ID, t.Entries)
	}
	if !ok {
		return
	}
	listed := n.Defect.enlist(n.list, moved)
	n.metrics.moved[movedIn].Add(float64(listed))
	a.give(moved)
}

// answer is what a transfer is answered, as soon as it is known.
type answer struct {
	given chan struct{} // closed then
	moved []matchmaking.Entry
}

func newAnswer() *answer { return &answer{given: make(chan struct{})} }

// give is called once, by whoever was first to ask for the answer.
func (a *answer) give(moved []matchmaking.Entry) {
	a.moved = moved
	close(a.given)
}

// answers remembers the latest answers.
type answers struct {
	most int

	mu     sync.Mutex
	by     map[string]*answer // by id
	ids    []string
	oldest int // index of an id, once there are as many as there may be
}

func newAnswers(most int) *answers { return &answers{most: most, by: map[string]*answer{}} }

// to gives the answer to a transfer. Whoever is the first to ask for it finds it
// out.
func (as *answers) to(id string) (a *answer, first bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a, ok := as.by[id]; ok {
		return a, false
	}
	a = newAnswer()
	as.by[id] = a
	if len(as.ids) < as.most {
		as.ids = append(as.ids, id)
		return a, true
	}
	delete(as.by, as.ids[as.oldest])
	as.ids[as.oldest] = id
	as.oldest = (as.oldest + 1) % as.most
	return a, true
}
