package mms_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/matchmaking"
	"relapse/topologies/services/mms"
)

// TestDefects has mms-1 give three of five servers to mms-2: a node with a defect
// breaks what a sound one holds to.
func TestDefects(t *testing.T) {
	for _, tc := range []struct {
		defect  mms.Defect
		becomes []happens // of the transfer
		times   int       // that the three are listed
	}{
		{mms.DropOnTimeout, []happens{lost, lost, lost}, 0},
		{mms.ForgetDuplicates, []happens{twice}, 2},
		{mms.ForgetDuplicates, []happens{replyLost, replyLost}, 3},
	} {
		for _, defect := range []mms.Defect{mms.Sound, tc.defect} {
			r := start(t, func(c *mms.Config) { c.Defect = defect }, "mms-1", "mms-2")
			r.register(t, "mms-1", 5)
			r.nodes["mms-2"].in.does("/transfers", tc.becomes...)
			r.nodes["mms-1"].give(t, 3, "mms-2")
			want := []int{1, 1, 1, 1, 1}
			if defect != mms.Sound {
				want = []int{1, 1, tc.times, tc.times, tc.times}
			}
			times := r.listed(t)
			have := make([]int, 5)
			for server, n := range times {
				have[server] = n
			}
			if !slices.Equal(have, want) {
				t.Errorf("%v, defect %q: listed %v times, want %v", tc.becomes, defect, have, want)
			}
		}
	}
}

// TestBeforeAck has an answer be lost, and looks before the transfer is sent again.
func TestBeforeAck(t *testing.T) {
	for _, tc := range []struct {
		defect          mms.Defect
		times           []int // that each server is listed
		donor, receiver int   // matches there are servers for, as each of them knows
		refused         float64
	}{
		{mms.Sound, []int{1, 1, 1, 1, 1}, 2, 3, 0},
		{mms.BeforeAck, []int{1, 1, 2, 2, 2}, 5, 0, 3},
	} {
		r := start(t, func(c *mms.Config) { alone(c); c.Defect, c.Pause = tc.defect, time.Minute }, "mms-1", "mms-2")
		donor, receiver := r.nodes["mms-1"], r.nodes["mms-2"]
		r.register(t, "mms-1", 5)
		receiver.in.does("/transfers", replyLost)
		go func() {
			_, _, _ = donor.try(t.Context(), http.MethodPost, "/gives", matchmaking.Give{Region: "eu", Count: 3, To: "mms-2"})
		}()
		eventually(t, "the transfer has arrived", func() bool { return receiver.free(t) == 3 })
		times := r.listed(t)
		have := make([]int, 5)
		for server, n := range times {
			have[server] = n
		}
		if !slices.Equal(have, tc.times) {
			t.Errorf("defect %q: listed %v times, want %v", tc.defect, have, tc.times)
		}
		for _, of := range []struct {
			node *node
			want int
		}{{donor, tc.donor}, {receiver, tc.receiver}} {
			made := 0
			for {
				if status, _, _ := of.node.match(t); status != http.StatusCreated {
					break
				}
				made++
			}
			if made != of.want {
				t.Errorf("defect %q: %s made %d matches, want %d", tc.defect, of.node.name, made, of.want)
			}
		}
		receiver.counts(t, map[string]float64{"relapse_refused_entries_total": tc.refused})
	}
}
