package mms

import "relapse/topologies/services/matchmaking"

// Defect is a mistake that a node is built with on purpose. Defects exist to prove
// that the checks of a topology see them: a check that passes a node with one of
// them would pass anything. All that they change is here; [Sound] has none.
type Defect string

// The defects.
const (
	Sound Defect = ""
	// DropOnTimeout has a donor forget what it sent and got no answer to, whether or
	// not it arrived. Servers that did not arrive are lost.
	DropOnTimeout Defect = "drop-on-timeout"
	// BeforeAck has a receiver list servers as they come, without asking them, and a
	// donor hand them out until it has an answer. Both have them then, and under the
	// same registration.
	BeforeAck Defect = "before-ack"
	// ForgetDuplicates has a receiver remember neither which transfers it had nor
	// which servers it has. A transfer that comes twice is listed twice.
	ForgetDuplicates Defect = "forget-duplicates"
)

// Defects lists all of them.
var Defects = []Defect{Sound, DropOnTimeout, BeforeAck, ForgetDuplicates}

// onTheWay is the state of what a donor has sent.
func (d Defect) onTheWay() state {
	if d == BeforeAck {
		return free
	}
	return held
}

// forgetsUnanswered says whether a donor forgets what it got no answer to.
func (d Defect) forgetsUnanswered() bool { return d == DropOnTimeout }

// listsUnasked says whether a receiver lists what comes without asking the servers.
func (d Defect) listsUnasked() bool { return d == BeforeAck }

// answerTo is the answer that a receiver has to a transfer.
func (d Defect) answerTo(id string, received *answers) (a *answer, first bool) {
	if d == ForgetDuplicates {
		return newAnswer(), true
	}
	return received.to(id)
}

// enlist puts what has moved into a receiver's list, and spreads it over the list.
func (d Defect) enlist(l *list, moved []matchmaking.Entry) (listed int) {
	if d != ForgetDuplicates {
		listed = l.register(moved)
		l.scatter(listed)
		return listed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range moved {
		l.add(e)
	}
	return len(moved)
}
