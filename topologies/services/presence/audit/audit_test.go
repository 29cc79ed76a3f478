package audit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"relapse/topologies/services"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/history"
)

const far = 1 << 42 // ms, in some decades

func TestEachInvariantIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(r *rig)
		want string // the invariant; none if it is empty
	}{
		{"nothing wrong", func(r *rig) {
			now := r.now()
			r.heard(now)
			r.read()
			r.marked(now, now+60, "a/1", 1)
			r.do("ZREM", api.SeenKey(partition), player)
		}, ""},
		{"handled twice", func(r *rig) {
			now := r.now()
			r.marked(now-60, now, "a/1", 1)
			r.marked(now-60, now, "a/1", 1)
		}, history.HandledTwice},
		{"missed", func(r *rig) { r.heard(r.now() - 60) }, history.Missed},
		{"without a claim", func(r *rig) {
			now := r.now()
			r.marked(now-60, now, "a/1", 2)
		}, history.WithoutClaim},
		{"in another life", func(r *rig) {
			now := r.now()
			r.marked(now-60, now, "a/2", 1)
		}, history.WithoutClaim},
		{"a false mark", func(r *rig) {
			now := r.now()
			r.heard(now - 30)
			r.read()
			r.marked(now-60, now, "a/1", 1)
			r.do("ZADD", api.SeenKey(partition), far, player)
		}, history.FalseMark},
		{"without an owner", func(r *rig) { r.do("HSET", presence.ClaimsKey, partition, fmt.Sprintf("1 %d a/1", r.now())) }, history.Unowned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			for k := range api.Partitions {
				r.claimed(k, 1, "a/1", "", far)
			}
			r.run()
			r.read()
			tc.do(r)
			if tc.want != "" {
				eventually(t, "it is counted", func() bool { return r.value("relapse_presence_violations_total", tc.want) == 1 })
				eventually(t, "it is written out", func() bool { return strings.Contains(r.printed.all(), "violation ") })
			}
			r.read()
			for _, invariant := range history.Invariants {
				want := 0.0
				if invariant == tc.want {
					want = 1
				}
				if have := r.value("relapse_presence_violations_total", invariant); have != want {
					t.Errorf("%s: have %v violations, want %v: %s", invariant, have, want, r.printed.all())
				}
			}
		})
	}
}

func TestWhatIsCounted(t *testing.T) {
	r := newRig(t)
	for k := range api.Partitions {
		r.claimed(k, k+1, "a/1", "", far)
	}
	r.claimed(0, 300, "b/2", "a/1", far)
	r.claimed(1, 301, "b/2", "a/1", far)
	r.do("XADD", presence.ClaimedKey, "*", "partition", 1, "number", 301, "owner", "b/2", "how", "left", "at", r.now())
	r.do("HSET", presence.ClaimsKey, 1, "301 1 b/2")
	r.do("ZADD", presence.InstancesKey, 1, "gone/3")
	r.heard(far)
	now := r.now()
	r.marked(now-60, now, "b/2", 300)
	r.run()
	for name, want := range map[string]float64{
		"relapse_presence_moved_total": 2, "relapse_presence_marks_total": 1, "relapse_presence_players": 1,
		"relapse_presence_registered": 2, "relapse_presence_spread": 253, "relapse_presence_unowned": 1,
	} {
		eventually(t, fmt.Sprintf("%s is %v", name, want), func() bool { return r.value(name) == want })
	}
}

func TestClaimsThatAreLostAreNotHeldAgainstTheirOwners(t *testing.T) {
	r := newRig(t)
	r.claimed(partition, 1, "a/1", "", far)
	r.run()
	r.read()
	r.server.Restart()
	// It was claimed and acted on, and the claim was lost before anybody read it.
	now := r.now()
	r.marked(now-60, now, "b/2", 2)
	r.claimed(partition, 3, "a/1", "", far)
	eventually(t, "the mark is read", func() bool { return r.value("relapse_presence_marks_total") == 1 })
	if have := r.value("relapse_presence_violations_total", history.WithoutClaim); have != 0 {
		t.Errorf("have %v violations, want none: %s", have, r.printed.all())
	}
}

func TestAnUnreadableHistoryIsNotAGoodOne(t *testing.T) {
	for name, do := range map[string]func(r *rig){
		"a player without a number": func(r *rig) { r.do("ZADD", api.SeenKey(0), 1, "x") },
		"an action without a field": func(r *rig) { r.do("XADD", presence.ActionsKey, "*", "player", player) },
		"an action of no player":    func(r *rig) { r.do("XADD", presence.ActionsKey, "*", "player", "x") },
		"a claim without a field":   func(r *rig) { r.do("XADD", presence.ClaimedKey, "*", "how", "free") },
		"a claim of no partition":   func(r *rig) { r.do("HSET", presence.ClaimsKey, "x", "1 1 a/1") },
		"a claim of nobody":         func(r *rig) { r.do("HSET", presence.ClaimsKey, 1, "1") },
		"a claim without an end":    func(r *rig) { r.do("HSET", presence.ClaimsKey, 1, "1 x a/1") },
		"no server":                 func(r *rig) { r.server.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			do(r)
			r.run()
			eventually(t, "readings fail", func() bool { return r.value("relapse_presence_audit_failures_total") >= 2 })
			if have := r.value("relapse_presence_audits_total"); have != 0 {
				t.Errorf("have %v readings, want none", have)
			}
		})
	}
}

func TestTheServiceRefusesBadFlags(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(settings, []byte("lease: 2s\nlate: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"--redis=127.0.0.1:1", "--metrics=127.0.0.1:0", "--settings=" + settings}
	run := func(args []string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within) // what is accepted serves until then
		defer cancel()
		return services.Run(ctx, "presence-audit", args)
	}
	if err := run(good, 200*time.Millisecond); err != nil {
		t.Errorf("%q: %v", good, err)
	}
	for _, have := range [][]string{
		{"x"}, {"--lease=0s"}, {"--interval=0s"}, {"--tick=0s"}, {"--offline-after=-1s"}, {"--late=-1s"}, {"--lag=-1s"}, {"--slack=-1s"},
		{"--every=-1s"}, {"--settings=nowhere"},
	} {
		if err := run(slices.Concat(good, have), 10*time.Second); err == nil {
			t.Errorf("%q: no error", have)
		}
	}
}
