package reports_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"relapse/replays"
	"relapse/reports"
)

func ptr[T any](v T) *T { return &v }

const (
	qActive = `min_over_time(haproxy_backend_active_servers{proxy="account"}[$phase])`
	qLogin  = `sum(rate(relapse_requests_total{op="login",outcome="ok"}[$phase])) / sum(rate(relapse_requests_total{op="login"}[$phase]))`
	qVerify = `sum(rate(relapse_requests_total{op="verify",outcome="ok"}[$phase])) / sum(rate(relapse_requests_total{op="verify"}[$phase]))`
	qLink   = `rate(relapse_link_bytes_total{link="nginx->memcached",direction="down"}[$phase]) / 312500`
	qInApp  = `sum(rate(account_requests_total[$phase]))`
	qLost   = `account_sessions_lost_total`
)

// finding states one check of the sample: margin is worked out as the judge does.
func finding(check, kind, phase, query, op string, got, limit float64, expected bool) replays.Finding {
	held := map[string]bool{">=": got >= limit, "<=": got <= limit, "<": got < limit, ">": got > limit, "==": got == limit}[op]
	margin := got - limit
	if op[0] == '<' || op == "==" {
		margin = limit - got
	}
	if limit != 0 {
		margin /= limit
	}
	f := replays.Finding{Check: check, Kind: kind, Phase: phase, Outcome: replays.Pass, Expected: &expected, Held: &held,
		Got: strconv.FormatFloat(got, 'g', -1, 64), Want: op + " " + strconv.FormatFloat(limit, 'g', -1, 64), Query: query + " " + op + " " + strconv.FormatFloat(limit, 'g', -1, 64), Margin: &margin}
	if held != expected {
		f.Outcome = replays.Fail
	}
	return f
}

// measured is what one arm of the sample saw during the stall.
type measured struct{ active, login, verify, link, inApp float64 }

func (m measured) findings(outage, loginOK, verifyOK, removed, saturated bool) []replays.Finding {
	sy, ob, in := replays.KindSymptom, replays.KindObjective, replays.KindInvariant
	return []replays.Finding{
		finding("acct-03", sy, "stall", qLink, ">=", m.link, 0.95, saturated),
		finding("acct-05", sy, "stall", qLogin, "<", m.login, 0.5, outage),
		finding("acct-06", sy, "stall", qActive, "==", m.active, 0, removed),
		finding("acct-07", sy, "stall", qInApp, "<", m.inApp, 35, outage),
		finding("login-works", ob, "healthy", qLogin, ">=", 1, 0.99, true),
		finding("login-works", ob, "stall", qLogin, ">=", m.login, 0.99, loginOK),
		finding("login-works", ob, "recovery", qLogin, ">=", 0.99875, 0.95, true),
		finding("verify-works", ob, "stall", qVerify, ">=", m.verify, 0.9, verifyOK),
		finding("nodes-in-rotation", ob, "stall", qActive, ">=", m.active, 1, !removed),
		finding("nothing-lost", in, "recovery", qLost, "==", 0, 0, true),
	}
}

func arm(name, expected, says string, k, n int, seconds float64, fs []replays.Finding) replays.ArmVerdict {
	a := replays.ArmVerdict{Arm: name, Expected: expected, Says: says, Plays: n, Passed: k, Failed: n - k, Seconds: seconds, Findings: fs,
		Faults: []replays.FaultTiming{{Name: "cache-saturation", Kind: "bandwidth", ScheduledAt: 6, InjectedAt: ptr(6.004), InEffectAt: ptr(6.021), UndoneAt: ptr(18.003), GoneAt: ptr(18.016)}}}
	for _, f := range fs {
		if len(a.Outcome) == 0 {
			a.Outcome = f.Outcome
		}
		a.Outcome = replays.Worst(a.Outcome, f.Outcome)
	}
	for i := range n {
		o := replays.Pass
		if i >= k {
			o = replays.Fail
		}
		a.Runs = append(a.Runs, replays.PlayVerdict{Arm: name, Outcome: o, Seed: uint64(20180204 + i), Seconds: seconds, Phases: 28, Findings: fs, Record: "runs/x/" + name})
	}
	return a
}

// sample is the account service's outage as a night would report it: it
// reproduces, and two of five fixes do not withstand their challenge.
func sample() reports.Report {
	down := measured{active: 0, login: 0.0166945, verify: 0.0248113, link: 0.9871, inApp: 16.4167}
	fine := measured{active: 2, login: 1, verify: 1, link: 0.081, inApp: 70.08}
	healthy := arm("healthy", "health", "No fault, the same load", 3, 3, 31.2, fine.findings(false, true, true, false, false))
	healthy.Faults = nil
	healthy.Findings = append(healthy.Findings, replays.Finding{Check: "AccountNodesDown", Kind: replays.KindAlert, Phase: "healthy", Outcome: replays.Pass, Expected: ptr(true), Held: ptr(true), Got: "silent", Want: "silent"})
	unfixed := arm("unfixed", "outage", "The incident as documented", 3, 3, 31.6, down.findings(true, false, false, true, true))
	unfixed.Findings = append(unfixed.Findings,
		replays.Finding{Check: "AccountNodesDown", Kind: replays.KindAlert, Phase: "stall", Outcome: replays.Pass, Expected: ptr(true), Held: ptr(true), Got: "1.75", Want: "fires within 5s"},
		replays.Finding{Check: "AccountErrorRate", Kind: replays.KindAlert, Phase: "stall", Outcome: replays.Pass, Expected: ptr(true), Held: ptr(true), Got: "3.5", Want: "fires within 10s"})
	drowned := measured{active: 0, login: 0.22, verify: 0.2587, link: 0.99, inApp: 216.5}
	arms := []replays.ArmVerdict{
		healthy, unfixed,
		arm("without-long-timeout", "no outage", "memcached times out after 10 ms", 3, 3, 31.1, measured{2, 1, 0.9967, 0.97, 1043.2}.findings(false, true, true, false, true)),
		arm("without-shared-slots", "no outage", "nginx has 1,024 connections", 3, 3, 31.3, measured{2, 1, 1, 0.98, 1021.9}.findings(false, true, true, false, true)),
		arm("without-shared-health-check", "outage", "the balancer asks the application directly", 3, 3, 31.0, measured{2, 0.1269, 0.2604, 0.99, 24.75}.findings(true, false, false, false, true)),
		arm("fix-direct-route", "fix", "Everything but token checks goes straight to the application", 3, 3, 31.4, measured{0, 1, 0.0241, 0.991, 70.2}.findings(false, true, false, true, true)),
		arm("fix-direct-route-under-proxy-killed", "fix", "Both nginx nodes are killed", 3, 3, 32.0, measured{0, 1, 0, 0.01, 70.1}.findings(false, true, false, true, false)),
		arm("fix-bigger-cache", "fix", "Ten times the bandwidth", 3, 3, 31.2, fine.findings(false, true, true, false, false)),
		arm("fix-remove-pair", "fix", "No nginx, no memcached", 3, 3, 30.2, measured{2, 1, 1, 0, 1070.4}.findings(false, true, true, false, false)),
		arm("fix-remove-pair-under-small-application", "fix", "The application carries 500 a second", 0, 3, 30.4, measured{2, 0.2219, 0.4104, 0, 500.3}.findings(false, true, true, false, false)),
		arm("fix-tight-timeout", "fix", "10 ms instead of 100 ms", 3, 3, 31.3, measured{2, 1, 0.9934, 0.97, 1043.2}.findings(false, true, true, false, true)),
		arm("fix-tight-timeout-under-silent-cache", "fix", "The cache accepts and never answers", 0, 3, 31.5, drowned.findings(false, true, true, false, true)),
		arm("fix-limited-connections", "fix", "At most 2 connections to the cache", 3, 3, 31.2, measured{2, 1, 0.9751, 0.96, 933.2}.findings(false, true, true, false, true)),
		arm("fix-limited-connections-under-silent-cache", "fix", "The cache accepts and never answers", 3, 4, 31.4, measured{2, 0.9961, 0.9803, 0.1, 1046.1}.findings(false, true, true, false, false)),
	}
	last := &arms[len(arms)-1]
	last.Outcome, last.Failed, last.Unknown = replays.Pass, 0, 1
	last.Runs[3].Outcome = replays.Unknown
	last.Runs[3].Validity = []replays.Gate{{Gate: "machine-quiet", Reason: "a 1 ms ticker overshot by 84 ms (bound 25 ms) at 9.3 s, in phase stall"}}
	return reports.Report{
		Incident: sampleIncident(),
		Verdict: replays.Verdict{
			Incident: "account-service", Title: "A saturated cache takes sign-in down", Outcome: replays.Fail, Reproduced: true, Arms: arms,
			Reasons: []string{
				"fix remove-pair does not hold under small-application: login-works (stall): 0.2219, want >= 0.99",
				"fix tight-timeout does not hold under silent-cache: login-works (stall): 0.22, want >= 0.99",
			},
			Record: "runs/20261010T021500Z-account-service",
			Timing: replays.Timing{Total: 1342.8, Phases: 1204, Ratio: 1.115, WorstOver: 4.02},
		},
		Timelines: []reports.Timeline{sampleTimeline("unfixed", down), sampleTimeline("healthy", fine),
			sampleTimeline("fix-direct-route", measured{0, 1, 0.0241, 0.991, 70.2}), sampleTimeline("fix-tight-timeout-under-silent-cache", drowned)},
		Environment: reports.Environment{
			Run: "20261010T021500Z-account-service", Tool: "0.3.0", Commit: "8146769d0c1f", Dirty: false, Date: time.Date(2026, 10, 10, 2, 15, 0, 0, time.UTC),
			Command: "relapse verify account-service --repeat 3 --out runs", Seed: 20180204,
			Machine: reports.Machine{OS: "Debian 12", Kernel: "6.18.2", CPUs: 2, MemoryBytes: 24 << 30, Engine: "Docker 20.10.24", Cgroup: "v1"},
			Images: []reports.Image{
				{Ref: "nginx:1.22.1", Source: "Debian packages", Digest: "sha256:6f2a4c8e7b0d5a1c9e3f7b2d4a6c8e0f1b3d5a7c9e1f3b5d7a9c1e3f5b7d9a1c", Versions: []string{"nginx 1.22.1"}},
				{Ref: "memcached:1.6.18", Source: "Debian packages", Digest: "sha256:6f2a4c8e7b0d5a1c9e3f7b2d4a6c8e0f1b3d5a7c9e1f3b5d7a9c1e3f5b7d9a1c", Versions: []string{"memcached 1.6.18"}},
				{Ref: "haproxy:2.6.12", Source: "Debian packages", Digest: "sha256:6f2a4c8e7b0d5a1c9e3f7b2d4a6c8e0f1b3d5a7c9e1f3b5d7a9c1e3f5b7d9a1c", Versions: []string{"HAProxy 2.6.12"}},
			},
		},
		Logs: []reports.LogExcerpt{
			{Node: "nginx-1", Arm: "unfixed", Says: "slots run out; the access log shows none of it", Lines: []string{
				"2026/10/10 02:16:12 [alert] 7#7: 32 worker_connections are not enough",
				"2026/10/10 02:16:12 [error] 7#7: *4711 upstream timed out (110: Connection timed out) while reading response header from upstream, client: 10.91.0.10",
				"2026/10/10 02:16:12 [alert] 7#7: *4723 32 worker_connections are not enough while connecting to upstream",
			}},
			{Node: "haproxy", Arm: "unfixed", Says: "the last node leaves the rotation", Lines: []string{
				"[WARNING] (8) : Server account/nginx-2 is DOWN, reason: Socket error, info: \"Connection reset by peer\", check duration: 0ms. 0 active and 0 backup servers left.",
				"[ALERT] (8) : backend 'account' has no server available!",
			}},
		},
		Modelled: []string{"The application sleeps 4 ms for a check instead of burning CPU.", "A cached token is 2,000 bytes, so that a link of 2.5 Mbit/s saturates at the rate played here."},
		Command:  "relapse verify account-service --repeat 3 --seed 20180204",
	}
}

func sampleIncident() reports.IncidentInfo {
	sy, ob, in, al := replays.KindSymptom, replays.KindObjective, replays.KindInvariant, replays.KindAlert
	return reports.IncidentInfo{
		Name: "account-service", Title: "A saturated cache takes sign-in down",
		Story: "Record load produced six incidents in two days. In one of them the sign-in service stood behind an nginx with a single shortcut: token checks were answered from Memcached, and every other call passed through to a Java application.\n\nMemcached's network and connections saturated. Each lookup then held an nginx worker until a 100 ms timeout; workers ran out and nothing else was served, the balancer's health checks included. The balancer removed every node: full downtime, although the application was healthy and had an overload protection of its own.",
		Source: reports.Source{Publisher: "Epic Games", Date: "2018-02-04", Document: "003_92ec39764d274d3f.txt",
			URL: "https://www.epicgames.com/fortnite/en-US/news/postmortem-of-service-outage-at-3-4m-ccu"},
		Scale:    reports.Scale{Documented: "3.4 million concurrent players", Here: "2 nodes; 80, then 1,000 token checks and 70 other calls a second"},
		Topology: "account-service", Speed: 1,
		Checks: []reports.CheckInfo{
			{ID: "acct-03", Kind: sy, Says: "Memcached failed through saturation of its network", During: "stall", Query: qLink + " >= 0.95", Documented: true},
			{ID: "acct-05", Kind: sy, Says: "Free workers ran out, so no traffic was served at all, not just token checks", During: "stall", Query: qLogin + " < 0.5", Documented: true},
			{ID: "acct-06", Kind: sy, Says: "Missed health checks make the balancer remove every node", During: "stall", Query: qActive + " == 0", Documented: true},
			{ID: "acct-07", Kind: sy, Says: "The application's own overload protection did not help, because traffic never reached it", During: "stall", Query: qInApp + " < 35", Documented: true},
			{ID: "login-works", Kind: ob, Says: "Players can sign in", During: "healthy, stall, recovery", Query: qLogin + " >= 0.99"},
			{ID: "verify-works", Kind: ob, Says: "Token checks are answered", During: "stall", Query: qVerify + " >= 0.9"},
			{ID: "nodes-in-rotation", Kind: ob, Says: "At least one node stays in rotation", During: "stall", Query: qActive + " >= 1"},
			{ID: "nothing-lost", Kind: in, Says: "No session that was granted is lost", During: "recovery", Query: qLost + " == 0"},
			{ID: "AccountNodesDown", Kind: al, Says: "No account node is in rotation"},
			{ID: "AccountErrorRate", Kind: al, Says: "Over 20 % of account calls fail"},
		},
		Causes: []reports.CauseInfo{
			{Name: "long-timeout", Says: "A lookup may hold a slot for 100 ms", Necessary: true},
			{Name: "shared-slots", Says: "All calls share the few connections of one nginx worker", Necessary: true},
			{Name: "shared-health-check", Says: "The health check takes the same path as the traffic", Necessary: false},
		},
		Fixes: []reports.FixInfo{
			{Name: "direct-route", Says: "Send everything but token checks straight to the application", Documented: true, Restores: []string{"login-works"}, Cures: []string{"acct-05"}, Leaves: []string{"verify-works", "nodes-in-rotation"},
				Diff:       "services:\n  haproxy:\n    configs:\n      - source: haproxy-direct\n        target: /etc/haproxy/haproxy.cfg\nconfigs:\n  haproxy-direct:\n    file: overlays/direct-route/haproxy.cfg\n",
				Challenges: []reports.ChallengeInfo{{Name: "proxy-killed", Says: "Both nginx nodes are killed", Holds: []string{"login-works"}}}},
			{Name: "bigger-cache", Says: "Ten times the bandwidth of the cache", Documented: true, Restores: []string{"login-works", "verify-works", "nodes-in-rotation"}, Cures: []string{"acct-03", "acct-05", "acct-06"}},
			{Name: "remove-pair", Says: "Take nginx and memcached away altogether", Documented: true, Restores: []string{"login-works", "verify-works"}, Cures: []string{"acct-03", "acct-05"},
				Challenges: []reports.ChallengeInfo{{Name: "small-application", Says: "The application carries 500 calls a second", Holds: []string{"login-works"}}}},
			{Name: "tight-timeout", Says: "Give the shortcut 10 ms instead of 100 ms", Restores: []string{"login-works", "verify-works"}, Cures: []string{"acct-05", "acct-06"}, Leaves: []string{},
				Challenges: []reports.ChallengeInfo{{Name: "silent-cache", Says: "The cache accepts and never answers", Holds: []string{"login-works", "verify-works"}}}},
			{Name: "limited-connections", Says: "At most two connections to the cache, the rest falls through at once", Restores: []string{"login-works", "verify-works"}, Cures: []string{"acct-05", "acct-06"},
				Challenges: []reports.ChallengeInfo{{Name: "silent-cache", Says: "The cache accepts and never answers", Holds: []string{"login-works", "verify-works"}}}},
		},
		AlertRules: "groups:\n  - name: account\n    rules:\n      - alert: AccountNodesDown\n        expr: haproxy_backend_active_servers{proxy=\"account\"} == 0\n        for: 1s\n",
	}
}

// sampleTimeline draws what the prototype measured: success collapses with the
// stall, nodes leave within half a second, and nginx cannot be asked while its
// slots are gone.
func sampleTimeline(name string, m measured) reports.Timeline {
	rng := rand.New(rand.NewPCG(1, uint64(len(name))))
	t := reports.Timeline{Arm: name,
		Phases: []reports.Span{{Name: "healthy", From: 0, To: 6}, {Name: "stall", From: 6, To: 18}, {Name: "recovery", From: 18, To: 28}},
		Events: []reports.Event{{At: 0, Says: "every node ready, load starts at 150 calls a second"}, {At: 6, Says: "token checks grow to 1,000 a second"}}}
	if name != "healthy" {
		t.Faults = []reports.Span{{Name: "cache-saturation", From: 6.021, To: 18.003}}
	}
	if name == "unfixed" {
		t.Alerts = []reports.Span{{Name: "AccountNodesDown", From: 7.75, To: 19}, {Name: "AccountErrorRate", From: 9.5, To: 20.25}}
		t.Events = append(t.Events, reports.Event{At: 6.4, Says: "the last node leaves the rotation"}, reports.Event{At: 18.7, Says: "both nodes back in rotation"})
	}
	add := func(series, unit string, step bool, calm, stall, noise float64) {
		s := reports.Series{Name: series, Unit: unit, Step: step}
		for i := range 56 {
			at := float64(i) / 2
			v := calm
			if at > 6.4 && at < 18.8 {
				v = stall + noise*rng.Float64()
			}
			if series == "nginx slots in use" && v > 31 && i%3 != 0 {
				v = math.NaN()
			}
			s.Points = append(s.Points, reports.Point{T: at, V: math.Round(v*1e4) / 1e4})
		}
		t.Series = append(t.Series, s)
	}
	spread := func(v float64) float64 { return min(0.05, 1-v) }
	add("Token checks answered", "ratio", false, 1, m.verify, spread(m.verify))
	add("Sign-ins that succeed", "ratio", false, 1, m.login, spread(m.login))
	add("Nodes in rotation", "", true, 2, m.active, 0)
	add("Calls that reach the application", "/s", false, 70, m.inApp, 4)
	add("nginx slots in use", "", false, 6, min(m.link*33, 32), 0)
	add("Cache link in use", "ratio", false, 0.081, m.link, 0.01)
	return t
}
