package limiter_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services/gamehosts"
	"relapse/topologies/services/limiter"
)

// rule is that of the topology: 75 dearest games fill a large host, 50 a small one.
func rule(name string) limiter.Rule {
	clash, err := gamehosts.ModeOf(gamehosts.Clash)
	if err != nil {
		panic(err)
	}
	return limiter.Rule{
		Name: name, Target: 0.7, Length: clash.Length(), Cost: map[string]float64{"large": clash.Mean() / 75, "small": clash.Mean() / 50},
		Factor: 1.5, Lowest: 10, Highest: 75, Usual: 600,
	}
}

// fleet is 10 large hosts and 5 small ones, all as used, with games spread by size.
func fleet(cpu float64, clash, other int) []limiter.Host {
	var out []limiter.Host
	for range 10 {
		out = append(out, limiter.Host{Kind: "large", CPU: cpu, Clash: clash * 75 / 1000, Other: other * 75 / 1000})
	}
	for range 5 {
		out = append(out, limiter.Host{Kind: "small", CPU: cpu, Clash: clash * 50 / 1000, Other: other * 50 / 1000})
	}
	return out
}

func full(hosts []limiter.Host, from int) []limiter.Host {
	out := slices.Clone(hosts)
	for n := from; n < len(out); n++ {
		out[n] = limiter.Host{Kind: out[n].Kind, Full: true}
	}
	return out
}

func usual(minutes int, starts float64) []float64 { return slices.Repeat([]float64{starts}, minutes) }

func TestCap(t *testing.T) {
	day := append(usual(1400, 32), usual(40, 40)...)
	for _, tc := range []struct {
		name    string
		history []float64
		factor  float64
		want    float64
	}{
		{"1.5 times the percentile", day, 1.5, 60},
		{"the percentile alone", day, 1, 40},
		{"three times is more than Champ Select takes, and clamped", day, 3, 75},
		{"a tiny shard", usual(1440, 0.4), 1.5, 10},
		{"a huge shard", usual(1440, 900), 1.5, 75},
		{"polluted by two hours of an earlier event", append(usual(1320, 32), usual(120, 60)...), 1.5, 75},
		{"no history", nil, 1.5, 10},
		{"nothing but what is no number", []float64{math.NaN(), math.Inf(1), -1}, 1.5, 10},
		{"what is no number is left out", append(slices.Clone(day), math.NaN()), 1.5, 60},
		{"zeros at the start of a day", usual(60, 0), 1.5, 10},
	} {
		r := rule(limiter.RuleCap)
		r.Factor = tc.factor
		if have := r.Cap(tc.history); have != tc.want {
			t.Errorf("%s: have %v, want %v", tc.name, have, tc.want)
		}
	}
}

func TestLimit(t *testing.T) {
	day := append(usual(1400, 32), usual(40, 40)...)
	early, before := 37.0, 34.8
	for _, tc := range []struct {
		name    string
		rule    string
		hosts   []limiter.Host
		history []float64
		sampled *float64
		want    float64
	}{
		{"the cap knows nothing of hosts", limiter.RuleCap, fleet(1, 900, 600), day, nil, 60},
		// 700 ÷ 0.7045 = 993.5 games, less 600, over 33 minutes.
		{"static", limiter.RuleStatic, fleet(0.24, 0, 600), day, nil, 11.93},
		{"static does not see what is used", limiter.RuleStatic, fleet(0.9, 900, 600), day, nil, 11.93},
		{"static of hosts that do not answer", limiter.RuleStatic, full(fleet(0.24, 0, 600), 0), day, nil, 0},
		{"sampled, before it was", limiter.RuleSampled, fleet(0.24, 0, 600), day, nil, 60},
		{"sampled while games were cheap", limiter.RuleSampled, fleet(0.9, 900, 600), day, &early, 37},
		{"sampled before the event", limiter.RuleSampled, fleet(0.9, 900, 600), day, &before, 34.8},
		{"gate, below the target", limiter.RuleGate, fleet(0.69, 300, 600), day, nil, 60},
		{"gate, above the target", limiter.RuleGate, fleet(0.71, 300, 600), day, nil, 0},
		{"gate, hosts that do not answer are full", limiter.RuleGate, full(fleet(0.61, 300, 600), 10), day, nil, 0},
		// (700 − 240) ÷ 0.7045 ÷ 33
		{"automatic, idle but for ordinary games", limiter.RuleAutomatic, fleet(0.24, 0, 600), day, nil, 19.79},
		// 640 ÷ 33: what ends is replaced.
		{"automatic, at the target", limiter.RuleAutomatic, fleet(0.70, 640, 600), day, nil, 19.39},
		// 640 ÷ 33 − 60 ÷ 0.7045 ÷ 33
		{"automatic, above the target", limiter.RuleAutomatic, fleet(0.76, 640, 600), day, nil, 16.81},
		{"automatic, far above: the lower clamp does not lift it", limiter.RuleAutomatic, fleet(1, 0, 600), day, nil, 0},
		{"automatic, empty hosts: the cap", limiter.RuleAutomatic, fleet(0, 2000, 0), day, nil, 60},
		// 480 ÷ 33 − 75 ÷ 0.7045 ÷ 33: small hosts, a quarter of all, count as full.
		{"automatic, small hosts do not answer", limiter.RuleAutomatic, full(fleet(0.70, 640, 600), 10), day, nil, 11.32},
		{"automatic, a reading that is no number is of a full host", limiter.RuleAutomatic, fleet(math.NaN(), 0, 0), day, nil, 0},
		{"automatic, hosts of an unknown type hold nothing", limiter.RuleAutomatic, []limiter.Host{{Kind: "new", CPU: 0.1}}, day, nil, 0},
		{"automatic, no hosts", limiter.RuleAutomatic, nil, day, nil, 0},
		{"automatic, no history: the lower clamp of the cap", limiter.RuleAutomatic, fleet(0.24, 0, 600), nil, nil, 10},
	} {
		have := rule(tc.rule).Limit(tc.hosts, tc.history, tc.sampled)
		if !(math.Abs(have-tc.want) <= 0.01) {
			t.Errorf("%s: have %.3f, want %.3f", tc.name, have, tc.want)
		}
	}
}

// TestSampledDependsOnItsMoment holds that one measurement misjudges what hosts hold by
// more than a fifth, by when it is taken: clash-11.
func TestSampledDependsOnItsMoment(t *testing.T) {
	r := rule(limiter.RuleSampled)
	cheap, ok := r.Sampled(fleet(0.24+0.35*0.24, 240, 600)) // a quarter of an hour after the first starts
	dear, ok2 := r.Sampled(fleet(0.24+0.48, 480, 600))      // half an hour after them
	if !ok || !ok2 || cheap < 1.2*dear {
		t.Errorf("have %.1f and %.1f a minute (%t, %t), want the first one a fifth above the other", cheap, dear, ok, ok2)
	}
	if have, ok := r.Sampled(full(fleet(0.5, 1, 1), 0)); ok {
		t.Errorf("of hosts that do not answer: have %.1f, want nothing", have)
	}
}

func TestRulesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*limiter.Rule)
	}{
		{"an unknown name", func(r *limiter.Rule) { r.Name = "guess" }},
		{"no target", func(r *limiter.Rule) { r.Target = 0 }},
		{"a target that is no number", func(r *limiter.Rule) { r.Target = math.NaN() }},
		{"a length of zero, as before the first game of a day", func(r *limiter.Rule) { r.Length = 0 }},
		{"no costs", func(r *limiter.Rule) { r.Cost = nil }},
		{"a cost of zero", func(r *limiter.Rule) { r.Cost = map[string]float64{"large": 0} }},
		{"a cost that is no number", func(r *limiter.Rule) { r.Cost = map[string]float64{"large": math.NaN()} }},
		{"a factor that is no number", func(r *limiter.Rule) { r.Factor = math.NaN() }},
		{"clamps that cross", func(r *limiter.Rule) { r.Lowest, r.Highest = 20, 10 }},
		{"fewer ordinary games than none", func(r *limiter.Rule) { r.Usual = -1 }},
	} {
		r := rule(limiter.RuleAutomatic)
		tc.spoil(&r)
		if err := r.Validate(); err == nil {
			t.Errorf("%s: accepted, want an error", tc.name)
		}
	}
	if err := rule(limiter.RuleAutomatic).Validate(); err != nil {
		t.Errorf("the topology's: %v", err)
	}
}

func TestOverridesExpire(t *testing.T) {
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for _, tc := range []struct {
		name     string
		override *limiter.Override
		at       int
		want     bool
	}{
		{"none", nil, 10, false},
		{"before it begins", &limiter.Override{From: minutes(14)}, 13, false},
		{"from its beginning", &limiter.Override{From: minutes(14)}, 14, true},
		{"forgotten", &limiter.Override{From: minutes(14)}, 10_000, true},
		{"to its end", &limiter.Override{From: minutes(14), For: minutes(6)}, 19, true},
		{"after its end", &limiter.Override{From: minutes(14), For: minutes(6)}, 20, false},
	} {
		if have := tc.override.Active(minutes(tc.at)); have != tc.want {
			t.Errorf("%s: have %t, want %t", tc.name, have, tc.want)
		}
	}
}
