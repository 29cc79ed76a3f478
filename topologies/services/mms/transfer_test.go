package mms_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/mms"
)

// TestTransfer has mms-1 give three of five servers to mms-2, over wires that do
// not carry everything. In the end each is in one list.
func TestTransfer(t *testing.T) {
	hasty := func(c *mms.Config) { c.PushTimeout = 50 * ms }
	for _, tc := range []struct {
		name     string
		change   func(*mms.Config)
		wires    func(donor, receiver *node)
		heals    bool // the receiver's wire to the fleet, afterwards
		status   int
		outcome  string
		donor    int
		receiver int
	}{
		{"all arrives", asItIs, func(_, _ *node) {}, false, 200, "moved", 2, 3},
		{"it is lost once", asItIs, func(_, r *node) { r.in.does("/transfers", lost) }, false, 200, "moved", 2, 3},
		{"it is lost twice", asItIs, func(_, r *node) { r.in.does("/transfers", lost, lost) }, false, 200, "moved", 2, 3},
		{"the answer is lost, and it is sent again", asItIs, func(_, r *node) { r.in.does("/transfers", replyLost) }, false, 200, "moved", 2, 3},
		{"it comes twice", asItIs, func(_, r *node) { r.in.does("/transfers", twice) }, false, 200, "moved", 2, 3},
		{"it does not come in time once", hasty, func(_, r *node) { r.in.does("/transfers", stuck) }, false, 200, "moved", 2, 3},
		{"the receiver is dead", asItIs, func(_, r *node) { r.in.keeps("/transfers", lost) }, false, 504, "returned", 5, 0},
		{"the receiver stands still", hasty, func(_, r *node) { r.in.keeps("/transfers", stuck) }, false, 504, "returned", 5, 0},
		{"the answer is lost for good", asItIs, func(_, r *node) { r.in.keeps("/transfers", replyLost) }, false, 504, "failed", 2, 3},
		{
			"the receiver is dead, and the fleet does not answer the donor at first", asItIs,
			func(d, r *node) { r.in.keeps("/transfers", lost); d.out.does("/moves", lost, replyLost) }, false, 504, "returned", 5, 0,
		},
		{"the fleet does not hear the receiver at first", asItIs, func(_, r *node) { r.out.does("/moves", lost, lost) }, false, 200, "moved", 2, 3},
		{"the receiver does not hear the fleet at first", asItIs, func(_, r *node) { r.out.does("/moves", replyLost) }, false, 200, "moved", 2, 3},
		{
			"it is sent again while the receiver still asks", func(c *mms.Config) { c.PushTimeout, c.ReserveTimeout = 50*ms, 70*ms },
			func(_, r *node) { r.out.does("/moves", stuck) }, false, 200, "moved", 2, 3,
		},
		{"the fleet hears the receiver when all is over", hasty, func(_, r *node) { r.out.keeps("/moves", lost) }, true, 504, "returned", 5, 0},
		{"the receiver hears the fleet when all is over", hasty, func(_, r *node) { r.out.keeps("/moves", replyLost) }, true, 504, "failed", 2, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, tc.change, "mms-1", "mms-2")
			donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
			r.register(t, "mms-1", 5)
			tc.wires(donor, receiver)
			status, moved := donor.give(t, 3, "mms-2")
			if status != tc.status || status == http.StatusOK && len(moved) != 3 {
				t.Errorf("have %d, moved %v; want %d, and 3 or no answer", status, moved, tc.status)
			}
			if tc.heals {
				_, before := receiver.out.on("/moves")
				receiver.out.keeps("/moves", arrives)
				eventually(t, "the receiver has asked the fleet", func() bool {
					now, ever := receiver.out.on("/moves")
					return now == 0 && ever > before
				})
			}
			eventually(t, "each server is in one list", func() bool { return once(r.listed(t), 5) })
			for _, want := range []struct {
				of   *node
				free int
			}{{donor, tc.donor}, {receiver, tc.receiver}} {
				if free, all := want.of.free(t), len(want.of.snapshot(t)); free != want.free || all != want.free {
					t.Errorf("%s has %d, %d of them free; want %d, all free", want.of.name, all, free, want.free)
				}
			}
			counts := map[string]float64{"relapse_transfers_total moved": 0, "relapse_transfers_total returned": 0, "relapse_transfers_total failed": 0}
			counts["relapse_transfers_total "+tc.outcome] = 1
			counts["relapse_moved_servers_total out"] = float64(len(moved))
			counts["relapse_moved_servers_total in"] = 0
			donor.counts(t, counts)
			receiver.counts(t, map[string]float64{"relapse_moved_servers_total in": float64(tc.receiver), "relapse_moved_servers_total out": 0})
		})
	}
}

// TestWhatRefusesToMoveIsForgotten has two servers in a match that the donor does
// not know of.
func TestWhatRefusesToMoveIsForgotten(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2")
	donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
	r.register(t, "mms-1", 3)
	r.fleet.plays("another", 0, 2)
	status, moved := donor.give(t, 3, "mms-2")
	if want := []matchmaking.Entry{{Server: 1, Region: "eu", Epoch: 2}}; status != http.StatusOK || !slices.Equal(moved, want) {
		t.Errorf("have %d, moved %v; want 200, %v", status, moved, want)
	}
	if have := donor.snapshot(t); len(have) != 0 {
		t.Errorf("the donor has %v, want nobody", have)
	}
	if have := receiver.free(t); have != 1 {
		t.Errorf("the receiver has %d, want 1", have)
	}
}

// TestWhoIsGoneIsNotMoved has two of three servers go before their node gives all of
// them away: whatever becomes of the transfer, no list has them afterwards.
func TestWhoIsGoneIsNotMoved(t *testing.T) {
	for _, tc := range []struct {
		name            string
		becomes         happens // of each transfer
		status          int
		donor, receiver int // servers in the list
	}{
		{"it arrives", arrives, 200, 0, 1},
		{"it comes twice", twice, 200, 0, 1},
		{"it is lost", lost, 504, 1, 0},
		{"the answer is lost", replyLost, 504, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, alone, "mms-1", "mms-2")
			donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
			r.register(t, "mms-1", 3)
			r.fleet.leave(0, 2)
			receiver.in.keeps("/transfers", tc.becomes)
			if status, moved := donor.give(t, 3, "mms-2"); status != tc.status || status == http.StatusOK && len(moved) != 1 {
				t.Errorf("have %d, moved %v; want %d, and one or no answer", status, moved, tc.status)
			}
			for _, want := range []struct {
				of   *node
				free int
			}{{donor, tc.donor}, {receiver, tc.receiver}} {
				if free, all := want.of.free(t), len(want.of.snapshot(t)); free != want.free || all != want.free {
					t.Errorf("%s has %d, %d of them free; want %d, all free", want.of.name, all, free, want.free)
				}
			}
			// Nothing is left to be given on.
			if status, moved := donor.give(t, 3, "mms-2"); tc.donor == 0 && status != http.StatusConflict {
				t.Errorf("a second gift: have %d, moved %v; want 409, as no server is free", status, moved)
			}
		})
	}
}

// TestWhatIsOnItsWayIsNotHandedOut has a receiver that takes its time.
func TestWhatIsOnItsWayIsNotHandedOut(t *testing.T) {
	r := start(t, alone, "mms-1", "mms-2")
	donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
	r.register(t, "mms-1", 4)
	receiver.in.keeps("/transfers", stuck)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := donor.try(t.Context(), http.MethodPost, "/gives", matchmaking.Give{Region: "eu", Count: 3, To: "mms-2"})
		answered <- status
	}()
	eventually(t, "they are on their way", func() bool { return donor.free(t) == 1 })
	for _, want := range []int{http.StatusCreated, http.StatusServiceUnavailable} {
		if have, _, _ := donor.match(t); have != want {
			t.Errorf("have %d, want %d", have, want)
		}
	}
	snapshot := donor.snapshot(t)
	if len(snapshot) != 3 {
		t.Errorf("the snapshot has %v, want the 3 that are on their way", snapshot)
	}
	for _, e := range snapshot {
		if e.State != matchmaking.Held {
			t.Errorf("%v is on its way, want it %s", e, matchmaking.Held)
		}
	}
	receiver.in.release()
	if have := <-answered; have != http.StatusOK {
		t.Errorf("the gift: have %d, want 200", have)
	}
	if have := receiver.free(t); have != 3 {
		t.Errorf("the receiver has %d, want 3", have)
	}
}

// TestATransferNeedsNobodyToWaitForIt has whoever ordered it leave.
func TestATransferNeedsNobodyToWaitForIt(t *testing.T) {
	r := start(t, asItIs, "mms-1", "mms-2")
	donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
	r.register(t, "mms-1", 3)
	receiver.in.keeps("/transfers", stuck)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() {
		_, _, err := donor.try(ctx, http.MethodPost, "/gives", matchmaking.Give{Region: "eu", Count: 2, To: "mms-2"})
		left <- err
	}()
	eventually(t, "they are on their way", func() bool { return donor.free(t) == 1 })
	leave()
	if <-left == nil {
		t.Error("who left was answered")
	}
	eventually(t, "the donor has noticed", func() bool { now, _ := donor.in.on("/gives"); return now == 0 })
	receiver.in.release()
	eventually(t, "they have moved", func() bool { return donor.value(t, "relapse_transfers_total", "moved") == 1 })
	if have := r.listed(t); !once(have, 3) {
		t.Errorf("listed %v, want each once", have)
	}
}

// TestADonorHasABoundedNumberOfTransfersInFlight has them go to a receiver that
// stands still.
func TestADonorHasABoundedNumberOfTransfersInFlight(t *testing.T) {
	const servers = mms.MostGiving + 2
	r := start(t, asItIs, "mms-1", "mms-2")
	donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
	r.register(t, "mms-1", servers)
	receiver.in.keeps("/transfers", stuck)
	answered := make(chan int, mms.MostGiving)
	for range cap(answered) {
		go func() {
			status, _, _ := donor.try(t.Context(), http.MethodPost, "/gives", matchmaking.Give{Region: "eu", Count: 1, To: "mms-2"})
			answered <- status
		}()
	}
	eventually(t, "as many as may be are in flight", func() bool { return donor.free(t) == 2 })
	if status, _ := donor.give(t, 1, "mms-2"); status != http.StatusConflict {
		t.Errorf("one more: have %d, want 409", status)
	}
	if have := donor.free(t); have != 2 {
		t.Errorf("free after it: have %d, want 2", have)
	}
	receiver.in.release()
	for range cap(answered) {
		if have := <-answered; have != http.StatusOK {
			t.Errorf("have %d, want 200", have)
		}
	}
	if status, _ := donor.give(t, 1, "mms-2"); status != http.StatusOK {
		t.Errorf("afterwards: have %d, want 200", status)
	}
	if have := r.listed(t); !once(have, servers) {
		t.Errorf("listed %v, want each once", have)
	}
}

// TestWhatMovesInIsSpreadOverTheList has half of a list come from another node.
func TestWhatMovesInIsSpreadOverTheList(t *testing.T) {
	const servers = 100 // of each node
	r := start(t, asItIs, "mms-1", "mms-2")
	r.register(t, "mms-1", servers)
	r.register(t, "mms-2", servers)
	if status, moved := r.nodes["mms-1"].give(t, servers, "mms-2"); status != http.StatusOK || len(moved) != servers {
		t.Fatalf("have %d, moved %d; want 200 and %d", status, len(moved), servers)
	}
	snapshot := r.nodes["mms-2"].snapshot(t) // in the list's order
	if len(snapshot) != 2*servers {
		t.Fatalf("the receiver lists %d, want %d", len(snapshot), 2*servers)
	}
	have := 0
	for _, e := range snapshot[:servers] {
		if e.Epoch == 2 { // a move is a registration more
			have++
		}
	}
	if have < servers/4 || have > 3*servers/4 {
		t.Errorf("in the list's first half: have %d that have moved in, want %d to %d", have, servers/4, 3*servers/4)
	}
}

// TestATransferThatComesLateChangesNothing has one come again after one of its
// servers was taken and another one has moved on.
func TestATransferThatComesLateChangesNothing(t *testing.T) {
	r := start(t, alone, "mms-1", "mms-2")
	receiver := r.nodes["mms-2"]
	transfer := matchmaking.Transfer{ID: "mms-1-x-t1", From: "mms-1", Entries: r.fleet.add("mms-1", 3)}
	send := func(tr matchmaking.Transfer) (moved []matchmaking.Entry) {
		status, body := receiver.call(t, http.MethodPost, "/transfers", tr)
		if status != http.StatusOK {
			t.Fatalf("have %d %s, want 200", status, body)
		}
		var said matchmaking.Moved
		read(t, body, &said)
		return said.Entries
	}
	first := send(transfer)
	if len(first) != 3 || receiver.free(t) != 3 {
		t.Fatalf("moved %v, %d are free; want 3", first, receiver.free(t))
	}
	if status, _, _ := receiver.match(t); status != http.StatusCreated {
		t.Fatalf("a match: have %d, want 201", status)
	}
	if status, moved := receiver.give(t, 1, "mms-1"); status != http.StatusOK || len(moved) != 1 {
		t.Fatalf("a gift: have %d, moved %v; want 200 and one", status, moved)
	}
	check := func(when string) {
		t.Helper()
		if have := receiver.free(t); have != 1 {
			t.Errorf("%s: %d are free, want 1", when, have)
		}
		if have := r.listed(t); !once(have, 2) {
			t.Errorf("%s: listed %v, want each once", when, have)
		}
	}
	check("before")
	if again := send(transfer); !slices.Equal(again, first) {
		t.Errorf("again: have %v, want what was answered first, %v", again, first)
	}
	check("again")
	transfer.ID = "mms-1-x-t2"
	if moved := send(transfer); len(moved) != 0 {
		t.Errorf("under another id: moved %v, want nobody", moved)
	}
	check("under another id")
	receiver.list(t, first...) // as if the fleet were late
	check("registered as it was once")
}
