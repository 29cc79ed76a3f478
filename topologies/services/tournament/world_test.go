package tournament_test

import (
	"testing"
	"time"

	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/limiter"
	"relapse/topologies/services/tournament"
	"relapse/topologies/services/tournament/audit"
)

// world is the topology without containers, in documented time: stage, hosts, and a
// limiter that reads them once a minute.
type world struct {
	rules    tournament.Rules
	rule     limiter.Rule
	override *limiter.Override
	sampleAt time.Duration
	brackets int
	distort  func(*gamehosts.Reading)
	twice    bool // the limit is granted twice
}

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

const firstTier = 14 // minutes

// asFirstBuilt is the un-fixed tournament; final is the last one.
func asFirstBuilt() *world {
	clash, err := gamehosts.ModeOf(gamehosts.Clash)
	if err != nil {
		panic(err)
	}
	return &world{
		rules: tournament.Rules{
			FirstTier: minutes(firstTier), Tiers: []float64{1}, TierEvery: minutes(30), Bracket: 16, Gate: tournament.GateNone,
			Slots: 560, Select: minutes(7), Again: minutes(1), ForfeitAfter: minutes(5),
		},
		rule: limiter.Rule{
			Name: limiter.RuleAutomatic, Target: 0.7, Length: clash.Length(),
			Cost:   map[string]float64{"large": clash.Mean() / 75, "small": clash.Mean() / 50},
			Factor: 1.5, Lowest: 10, Highest: 75, Usual: 600,
		},
		sampleAt: minutes(4), brackets: 200,
	}
}

func (w *world) tiers() *world {
	w.rules.Tiers, w.rules.Immediate = []float64{45, 40, 15}, true
	return w
}

func (w *world) gated(rule string) *world {
	w.rule.Name, w.rules.Gate, w.rules.ForfeitAfter = rule, tournament.GateBefore, 0
	return w
}

func final() *world { return asFirstBuilt().tiers().gated(limiter.RuleAutomatic) }

// outcome is what came of a world in the 114 minutes that are played.
type outcome struct {
	tournament.Counts
	early      tournament.Counts // 8 minutes after the first tier began
	plateau    float64           // mean CPU from 44 to 76 minutes after that
	peak       float64           // CPU of the host with most
	killed     int
	expired    int // lobbies held behind Champ Select, at most
	violations map[string]int
	compared   int
}

// turns takes hosts in turn, as the service does.
type turns struct {
	hosts  []gamehosts.HostConfig
	credit []float64
}

func (r *turns) next() string {
	best, sum := 0, 0.0
	for n, h := range r.hosts {
		r.credit[n] += h.Capacity
		sum += h.Capacity
		if r.credit[n] > r.credit[best] {
			best = n
		}
	}
	r.credit[best] -= sum
	return r.hosts[best].Name
}

func (w *world) play(t *testing.T) outcome {
	t.Helper()
	large, err := gamehosts.ParseHosts("a", "large=10*75")
	if err != nil {
		t.Fatal(err)
	}
	small, err := gamehosts.ParseHosts("b", "small=5*50")
	if err != nil {
		t.Fatal(err)
	}
	configs := append(large, small...)
	hosts, err := gamehosts.New(configs)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome{violations: map[string]int{}}
	check := audit.New(audit.Config{
		Gated: w.rules.Gate == tournament.GateBefore, Target: 0.7, Length: w.rule.Length,
		Capacity: map[string]float64{"large": 1 / w.rule.Cost["large"], "small": 1 / w.rule.Cost["small"]},
	})
	found := func(violations []audit.Violation) {
		for _, v := range violations {
			o.violations[v.Invariant]++
		}
	}
	stage, err := tournament.NewStage(w.rules, func(e tournament.Event) { found(check.Happened(e)) })
	if err != nil {
		t.Fatal(err)
	}
	rotation := map[string]*turns{}
	ids := int64(1 << 32)
	place := func(now time.Duration, id int64, mode string, age time.Duration) {
		if rotation[mode] == nil {
			rotation[mode] = &turns{configs, make([]float64, len(configs))}
		}
		began, err := hosts.Place(now, gamehosts.Placement{Game: id, Mode: mode, Host: rotation[mode].next(), Age: age})
		if err != nil || !began {
			t.Fatalf("game %d: %t, %v", id, began, err)
		}
	}
	ordinary := []string{"aram", "tft", "rift"}
	for n := range 200 {
		for _, mode := range ordinary {
			ids++
			place(0, ids, mode, minutes((float64(n)+0.5)/10))
		}
	}
	answers := gamehosts.Answers{Boot: 1}
	known := map[string]string{}
	limit, sum, samples := limiter.Limit{Boot: 1}, 0.0, 0
	var sampled *float64
	history := append(make([]float64, 0, 1440), repeat(1400, 32)...)
	history = append(history, repeat(40, 40)...)
	locked := 0
	for step := 0; step <= 1140; step++ {
		now := time.Duration(step) * 6 * time.Second
		hosts.Advance(now)
		if step > 0 {
			for _, mode := range ordinary {
				ids++
				place(now, ids, mode, 0)
			}
		}
		if step%10 == 0 {
			readings := hosts.Readings()
			if w.distort != nil {
				for n := range readings {
					w.distort(&readings[n])
				}
			}
			answer := answers.Next(now, readings)
			for _, r := range readings {
				known[r.Host] = r.Kind
			}
			of, _ := limiter.HostsOf(answer, 0, known)
			if s, ok := w.rule.Sampled(of); ok && sampled == nil && now >= w.sampleAt {
				sampled = &s
			}
			limit = limiter.Limit{
				Boot: 1, Number: limit.Number + 1, At: now, Rule: w.rule.Name, Cap: w.rule.Cap(history), Limit: w.rule.Limit(of, history, sampled),
				Sources: []limiter.Source{{Node: "hosts", Boot: 1, Number: answer.Number}},
			}
			if w.override.Active(now) {
				limit.Rule, limit.Limit = "override", w.override.Limit
			}
			check.Answered("hosts", answer)
			check.Stated(limit)
			found(check.Limited(limit, true))
		}
		// Lock-in opens six minutes before the first tier begins, and lasts as long.
		for since := now - minutes(firstTier-6); since >= 0 && locked < w.brackets && float64(locked) <= since.Minutes()/6*float64(w.brackets); locked++ {
			stage.LockIn(since)
		}
		may := limit.Limit
		if w.twice {
			may *= 2
		}
		for _, id := range stage.Step(now, may) {
			place(now, id, gamehosts.Clash, 0)
			stage.Placed(id)
			found(check.Began(gamehosts.Began{At: now, Game: id}))
		}
		used := 0.0
		for _, s := range hosts.States() {
			used += s.Load * s.Capacity
			if now >= minutes(firstTier) {
				o.peak = max(o.peak, s.Load)
			}
		}
		o.expired = max(o.expired, stage.Sizes().Expired)
		if now == minutes(firstTier+8) {
			o.early = stage.Counts
		}
		if now >= minutes(firstTier+44) && now <= minutes(firstTier+76) {
			sum, samples = sum+used/1000, samples+1
		}
	}
	o.Counts, o.plateau, o.killed, o.compared = stage.Counts, sum/float64(samples), hosts.Totals(gamehosts.Clash).Killed, check.Checked
	return o
}

func repeat(n int, v float64) []float64 {
	out := make([]float64, n)
	for k := range out {
		out[k] = v
	}
	return out
}

// TestArms holds that each step of the story comes out as documented, the bad ones too,
// by the figures of the incident.
func TestArms(t *testing.T) {
	for _, tc := range []struct {
		name string
		w    func() *world
		want func(outcome) bool
		says string
	}{
		{"un-fixed", asFirstBuilt, func(o outcome) bool {
			return o.early.Failed > (o.early.Failed+o.early.Started)/5 && o.early.Forfeits > 0 && o.Peak > 500 && o.peak <= 0.85
		}, "a fifth of the starts fails, games are forfeited, one spike, hosts below 85 %"},
		{"a tenth of the shard", func() *world { w := asFirstBuilt(); w.brackets = 20; return w }, func(o outcome) bool {
			return o.Failed == 0 && o.Forfeits == 0 && o.Begun == 160 && o.peak <= 0.85
		}, "all 160 begin"},
		{"three tenths of the shard", func() *world { w := asFirstBuilt(); w.brackets = 60; return w }, func(o outcome) bool {
			return o.Failed == 0 && o.Forfeits == 0 && o.Begun == 480 && o.peak <= 0.85
		}, "all 480 begin"},
		{"tiers alone", func() *world { return asFirstBuilt().tiers() }, func(o outcome) bool {
			return o.Peak < 500 && o.early.Forfeits == 0 && o.peak > 0.85
		}, "no spike, no forfeit, hosts above 85 %"},
		{"no forfeits", func() *world { w := asFirstBuilt(); w.rules.ForfeitAfter = 0; return w }, func(o outcome) bool {
			return o.Forfeits == 0 && o.Begun == 1600 && o.early.Failed > 500 && o.peak > 0.85
		}, "all begin, starts fail, hosts above 85 %"},
		{"a large Champ Select", func() *world { w := asFirstBuilt(); w.rules.Slots = 4000; return w }, func(o outcome) bool {
			return o.Failed == 0 && o.Forfeits == 0 && o.killed > 0
		}, "no start fails, games are shut down"},
		{"the cap alone", func() *world { return asFirstBuilt().gated(limiter.RuleCap) }, func(o outcome) bool {
			return o.Failed == 0 && o.Begun == 1600 && o.killed > 0 && o.peak > 1
		}, "no start fails, and games are shut down"},
		{"static capacity", func() *world { return asFirstBuilt().tiers().gated(limiter.RuleStatic) }, func(o outcome) bool {
			return o.Failed == 0 && o.plateau < 0.6 && o.peak < 0.7 && o.Begun < 1600
		}, "below 60 %, and not all begin"},
		{"a spot sample", func() *world { return asFirstBuilt().tiers().gated(limiter.RuleSampled) }, func(o outcome) bool {
			return o.Failed == 0 && o.peak > 0.87
		}, "hosts above 87 %"},
		{"an on-off gate", func() *world { return asFirstBuilt().tiers().gated(limiter.RuleGate) }, func(o outcome) bool {
			return o.Failed == 0 && o.peak > 0.87
		}, "hosts above 87 %"},
		{"by hand", func() *world {
			w := asFirstBuilt().tiers().gated(limiter.RuleCap)
			w.override = &limiter.Override{Limit: 19}
			return w
		}, func(o outcome) bool {
			return o.Failed == 0 && o.Begun == 1600 && o.peak <= 0.8 && o.plateau > 0.66 && o.plateau < 0.74
		}, "all begin, 66 to 74 %"},
		{"by hand, and forgotten", func() *world {
			w := asFirstBuilt().tiers().gated(limiter.RuleCap)
			w.override = &limiter.Override{Limit: 40}
			return w
		}, func(o outcome) bool { return o.peak > 0.87 }, "hosts above 87 %"},
		{"behind Champ Select", func() *world {
			w := final()
			w.rules.Gate = tournament.GateBehind
			return w
		}, func(o outcome) bool { return o.expired > 50 && o.Failed > 100 && o.Forfeits == 0 }, "lobbies are held, starts fail"},
		{"a cap on teams", func() *world { w := final(); w.rules.MostTeams = 1600; return w }, func(o outcome) bool {
			return o.Refused == 800 && o.Begun == 800 && o.peak <= 0.83
		}, "800 games, 800 refused"},
		{"automatic", final, func(o outcome) bool {
			return o.Failed == 0 && o.Forfeits == 0 && o.Begun == 1600 && o.killed == 0 && o.peak <= 0.83 && o.plateau > 0.66 && o.plateau < 0.745 && o.compared > 100
		}, "all begin, 66 to 74.5 %, never above 83 %"},
		{"automatic, with an override that ends", func() *world {
			w := final()
			w.override = &limiter.Override{Limit: 30, From: minutes(firstTier), For: minutes(6)}
			return w
		}, func(o outcome) bool { return o.Begun == 1600 && o.peak <= 0.84 }, "never above 84 %"},
		{"automatic, with readings of three tenths", func() *world {
			w := final()
			w.distort = func(r *gamehosts.Reading) { r.CPU *= 0.3 }
			return w
		}, func(o outcome) bool { return o.Failed == 0 && o.peak > 0.87 }, "hosts above 87 %"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			have := tc.w().play(t)
			if !tc.want(have) {
				t.Errorf("have %+v, want %s", have, tc.says)
			}
			for invariant, n := range have.violations {
				t.Errorf("%d violations of %s, want none", n, invariant)
			}
		})
	}
}

// TestGrantingTwiceIsSeen holds that the audit sees starts above the limit.
func TestGrantingTwiceIsSeen(t *testing.T) {
	w := final()
	w.twice = true
	if have := w.play(t); have.violations[audit.AboveLimit] == 0 {
		t.Errorf("have %+v, want violations of %s", have, audit.AboveLimit)
	}
}

func TestRulesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*tournament.Rules)
	}{
		{"no tier", func(r *tournament.Rules) { r.Tiers = nil }},
		{"a tier of nobody", func(r *tournament.Rules) { r.Tiers = []float64{1, 0} }},
		{"odd brackets", func(r *tournament.Rules) { r.Bracket = 15 }},
		{"an unknown gate", func(r *tournament.Rules) { r.Gate = "door" }},
		{"no lobby", func(r *tournament.Rules) { r.Slots = 0 }},
		{"tries without a pause", func(r *tournament.Rules) { r.Again = 0 }},
		{"fewer teams than none", func(r *tournament.Rules) { r.MostTeams = -1 }},
	} {
		r := asFirstBuilt().rules
		tc.spoil(&r)
		if err := r.Validate(); err == nil {
			t.Errorf("%s: accepted, want an error", tc.name)
		}
	}
}
