package samples_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"relapse/replays/samples"
)

var start = time.UnixMilli(1_700_000_000_000)

// filled gives 30 s of samples every 250 ms.
func filled() *samples.Store {
	s := samples.NewStore()
	for i := range 121 {
		at := start.Add(time.Duration(i) * samples.Period)
		add := func(v float64, name string, pairs ...string) {
			l := map[string]string{}
			for j := 0; j < len(pairs); j += 2 {
				l[pairs[j]] = pairs[j+1]
			}
			s.Append(name, l, at, v)
		}
		add(100, "answers_total", "outcome", "none")
		add(float64(i)*25, "requests_total", "outcome", "ok")
		add(float64(i)*0.25, "requests_total", "outcome", "error")
		add(0, "idle_total")
		add(3, "servers")
		add(-2, "below")
		add(0.98996, "ratio")
		add(math.Inf(1), "endless")
		add(math.NaN(), "nothing")
		for j, node := range []string{"nginx-1", "nginx-2", "nginx-3"} {
			add(float64(j+1)/10, "busy", "node", node)
			add(float64(j+2)/10, "limit", "node", node)
			if i < 40 {
				add(1, "up", "node", node)
			}
		}
	}
	return s
}

func TestInstant(t *testing.T) {
	s := filled()
	at := start.Add(20 * time.Second)
	for _, tt := range []struct {
		name, query string
		state       samples.State
		got, want   string
		margin      string // "" for nil
		reason      string
	}{
		{"at least, held", `servers >= 3`, samples.Held, "3", ">= 3", "0", ""},
		{"at least, not held", `servers >= 4`, samples.NotHeld, "3", ">= 4", "-0.25", ""},
		{"over, at the limit", `servers > 3`, samples.NotHeld, "3", "> 3", "0", ""},
		{"over, held", `servers > 2`, samples.Held, "3", "> 2", "0.5", ""},
		{"at most, held", `servers <= 4`, samples.Held, "3", "<= 4", "0.25", ""},
		{"at most, not held", `servers <= 2`, samples.NotHeld, "3", "<= 2", "-0.5", ""},
		{"under, held", `servers < 6`, samples.Held, "3", "< 6", "0.5", ""},
		{"under, not held", `servers < 3`, samples.NotHeld, "3", "< 3", "0", ""},
		{"equal, held", `servers == 3`, samples.Held, "3", "== 3", "0", ""},
		{"equal, not held", `servers == 6`, samples.NotHeld, "3", "== 6", "-0.5", ""},
		{"unequal, held", `servers != 2`, samples.Held, "3", "!= 2", "0.5", ""},
		{"unequal, not held", `servers != 3`, samples.NotHeld, "3", "!= 3", "0", ""},
		{"limit of zero", `servers > 0`, samples.Held, "3", "> 0", "3", ""},
		{"limit of zero, not held", `servers <= 0`, samples.NotHeld, "3", "<= 0", "-3", ""},
		{"negative limit", `below >= -4`, samples.Held, "-2", ">= -4", "0.5", ""},
		{"parentheses", `((servers >= 3))`, samples.Held, "3", ">= 3", "0", ""},
		{"limit as written", `servers >= 1e-1`, samples.Held, "3", ">= 1e-1", "29", ""},
		{"limit worked out", `servers >= 1 + 1`, samples.Held, "3", ">= 2", "0.5", ""},
		{"limit measured, a scalar", `servers >= 2 * scalar(servers)`, samples.NotHeld, "3", ">= 6", "-0.5", ""},
		{"limit measured, a vector", `servers > on() idle_total`, samples.Held, "3", "> 0", "3", ""},
		{"rounded away from the limit", `ratio >= 0.99`, samples.NotHeld, "0.98996", ">= 0.99", "-4.04e-05", ""},
		{"the phase", `sum(increase(requests_total{outcome="ok"}[$phase])) > 900`, samples.Held, "1000", "> 900", "0.111", ""},
		{"the phase as a subquery", `max_over_time(servers[$phase:1s]) == 3`, samples.Held, "3", "== 3", "0", ""},
		{"a share", `sum(rate(requests_total{outcome="ok"}[$phase])) / sum(rate(requests_total[$phase])) >= 0.99`,
			samples.Held, "0.9901", ">= 0.99", "0.0001", ""},
		{"every series, held", `busy < 0.5`, samples.Held, `{node="nginx-1"} 0.1, {node="nginx-2"} 0.2, {node="nginx-3"} 0.3`, "< 0.5", "", ""},
		{"every series, one violates", `busy < 0.3`, samples.NotHeld, `{node="nginx-1"} 0.1, {node="nginx-2"} 0.2, {node="nginx-3"} 0.3`, "< 0.3", "", ""},
		{"series against series, held", `busy < on(node) limit`, samples.Held,
			`{node="nginx-1"} 0.1, {node="nginx-2"} 0.2, {node="nginx-3"} 0.3`,
			`< {node="nginx-1"} 0.2, {node="nginx-2"} 0.3, {node="nginx-3"} 0.4`, "", ""},
		{"series against series, one violates", `busy < on(node) (limit - 0.1 * (limit > 0.35))`, samples.NoData,
			`{node="nginx-1"} 0.1, {node="nginx-2"} 0.2, {node="nginx-3"} 0.3`, `< 0.36`, "",
			"2 of 3 series on the left have no partner on the right: compare on(...) the labels that both share"},
		{"series against themselves", `busy > busy`, samples.NotHeld,
			`{node="nginx-1"} 0.1, {node="nginx-2"} 0.2, {node="nginx-3"} 0.3`,
			`> {node="nginx-1"} 0.1, {node="nginx-2"} 0.2, {node="nginx-3"} 0.3`, "", ""},
		{"infinity compares", `endless > 5`, samples.Held, "+Inf", "> 5", "", ""},
		{"something by nothing compares", `servers / idle_total > 5`, samples.Held, "+Inf", "> 5", "", ""},
		{"no such metric", `nosuch > 1`, samples.NoData, "", "> 1", "", "no samples match nosuch: there is no series of that name"},
		{"no such metric behind or", `(sum(nosuch) or vector(0)) < 1`, samples.NoData, "", "< 1", "",
			"no samples match nosuch: there is no series of that name"},
		{"no such label value", `sum(rate(requests_total{outcome="lost"}[$phase])) < 1`, samples.NoData, "", "< 1", "",
			`no samples match requests_total{outcome="lost"}`},
		{"none, said to be zero", `(sum(rate(requests_total{outcome="lost"}[$phase])) or vector(0)) < 1`, samples.Held, "0", "< 1", "1", ""},
		{"ended before", `up == 1`, samples.NoData, "", "== 1", "", `no samples match up in its window: the newest is 10.25s old`},
		{"yet to come", `servers offset 1h > 1`, samples.NoData, "", "> 1", "", `no samples match servers yet: all of them are later`},
		{"limit has no samples", `servers > on() up{node="nginx-9"}`, samples.NoData, "3", ">", "", `no samples match up{node="nginx-9"}`},
		{"filtered empty", `count(servers == 0) == 0`, samples.NoData, "", "== 0", "",
			"the left side gives no series although its selectors match samples: if none means zero, say so with ... or vector(0)"},
		{"nothing by nothing", `rate(idle_total[$phase]) / rate(idle_total[$phase]) >= 0.9`, samples.NoData, "NaN", ">= 0.9", "",
			"the left side is not a number: nothing divided by nothing"},
		{"not a number is unequal to nothing", `nothing != 3`, samples.NoData, "NaN", "!= 3", "",
			"the left side is not a number: nothing divided by nothing"},
		{"limit is not a number", `servers > scalar(nothing)`, samples.NoData, "3", "> NaN", "",
			"the right side is not a number: nothing divided by nothing"},
		{"scalar of nothing", `servers > scalar(up)`, samples.NoData, "3", "> NaN", "", "no samples match up in its window: the newest is 10.25s old"},
		{"not a number beside a violation", `{__name__=~"nothing|servers"} > 5`, samples.NotHeld, "nothing NaN, servers 3", "> 5", "", ""},
		{"not a number beside none", `{__name__=~"nothing|servers"} > 1`, samples.NoData, "nothing NaN, servers 3", "> 1", "",
			"the left side is not a number: nothing divided by nothing"},
		{"cannot be evaluated", `servers > on(node) limit + on() group_left() busy`, samples.NoData, "", ">", "", "evaluating"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := samples.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			r := q.Instant(s, at, 10*time.Second)
			margin := ""
			if r.Margin != nil {
				margin = strings.TrimSuffix(formatFloat(*r.Margin), ".0")
			}
			reason := r.Reason
			if tt.reason == "evaluating" && strings.HasPrefix(reason, tt.reason) {
				reason = tt.reason
			}
			have := []string{r.State.String(), r.Got, r.Want, margin, reason}
			want := []string{tt.state.String(), tt.got, tt.want, tt.margin, tt.reason}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("state, got, want, margin, reason (-want +have):\n%s", diff)
			}
		})
	}
}

func TestInstantManySeries(t *testing.T) {
	s := samples.NewStore()
	for i := range 20 {
		s.Append("x", map[string]string{"i": string(rune('a' + i))}, start, float64(i))
	}
	q, err := samples.ParseQuery(`x < 19`)
	if err != nil {
		t.Fatal(err)
	}
	r := q.Instant(s, start, 0)
	if !strings.HasPrefix(r.Got, `{i="t"} 19, {i="s"} 18, {i="r"} 17, and 17 more`) {
		t.Errorf("the violating series is not shown first, and what is nearest to the limit after it: %s", r.Got)
	}
}

func TestInstantPhaseWithoutLength(t *testing.T) {
	q, err := samples.ParseQuery(`rate(requests_total[$phase]) > 1`)
	if err != nil {
		t.Fatal(err)
	}
	if r := q.Instant(filled(), start.Add(time.Second), 0); r.State != samples.NoData || r.Reason == "" {
		t.Errorf("want no data with a reason, got %+v", r)
	}
}

func TestRange(t *testing.T) {
	s := samples.NewStore()
	for i := range 20 { // 5 s; a gap of 2 s from 2 s on
		if i < 8 || i >= 16 {
			s.Append("up", map[string]string{"node": "a"}, start.Add(time.Duration(i)*samples.Period), float64(i/4%2))
		}
	}
	q, err := samples.ParseQuery(`up == 0`)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for i, r := range q.Range(s, start, start.Add(4500*time.Millisecond), 500*time.Millisecond, 0) {
		if want := start.Add(time.Duration(i) * 500 * time.Millisecond); !r.At.Equal(want) {
			t.Errorf("result %d is of %s, want %s", i, r.At, want)
		}
		have = append(have, r.State.String())
	}
	// The last sample before the gap is of 1.75 s and counts for a second.
	want := []string{"held", "held", "not held", "not held", "not held", "not held", "no data", "no data", "held", "held"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestParseQueryErrors(t *testing.T) {
	for _, tt := range []struct {
		name, query string
		column      int
		problem     string
		hint        string // how it begins
	}{
		{"empty", ``, 1, "no expression found in input", "a check is a comparison"},
		{"no comparison", `sum(up)`, 1, "this compares nothing", "a check is a comparison"},
		{"no comparison in parentheses", ` (sum(up))`, 3, "this compares nothing", "a check is a comparison"},
		{"arithmetic", `up / 2`, 4, `"/" gives a number and compares nothing`, "a check is a comparison"},
		{"set operator", `up > 1 and up < 3`, 8, `"and" stands above the comparison`, "make it two checks"},
		{"or", `up > 1 or vector(0)`, 8, `"or" stands above the comparison`, "make it two checks"},
		{"bool", `up > bool 1`, 4, "the bool modifier makes this a number and no comparison", "leave bool out"},
		{"constant numbers", `1 == 1`, 1, "this reads no samples: it cannot fail", "a check is a comparison"},
		{"constant vectors", `vector(1) > 0`, 1, "this reads no samples: it cannot fail", "a check is a comparison"},
		{"the clock", `time() > 0`, 1, "this reads no samples: it cannot fail", "a check is a comparison"},
		{"scalars", `scalar(up) > 0`, 1, "this compares two scalars", "leave scalar() out"},
		{"sides exchanged", `0.99 <= sum(up)`, 1, "the left side reads no samples", "what is measured stands on the left: sum(up) >= 0.99"},
		{"group_right", `up > on(node) group_right limit`, 4, "group_right gives one series on the left several limits", "put the side"},
		{"syntax", `sum(up >= 1`, 12, "unclosed left parenthesis", "a check is a comparison"},
		{"syntax behind the phase", `rate(up[$phase]) >= up up`, 24, `unexpected identifier "up"`, "a check is a comparison"},
		{"unknown function", `rat(up[$phase]) > 1`, 1, `unknown function with name "rat"`, "a check is a comparison"},
		{"range without a function", `up[$phase] > 1`, 1, `binary expression must contain only scalar and instant vector types`, "a check is a comparison"},
		{"other placeholder", `rate(up[$phases]) > 1`, 9, "there is no placeholder $phases", "the only one is $phase"},
		{"columns are characters", `up{node="Zürich"} > $x`, 21, "there is no placeholder $x", "the only one is $phase"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := samples.ParseQuery(tt.query)
			e, ok := errors.AsType[*samples.QueryError](err)
			if !ok {
				t.Fatalf("want a QueryError, got %v", err)
			}
			if e.Column != tt.column || e.Problem != tt.problem || !strings.HasPrefix(e.Hint, tt.hint) {
				t.Errorf("have column %d: %s: %s\nwant column %d: %s: %s", e.Column, e.Problem, e.Hint, tt.column, tt.problem, tt.hint)
			}
		})
	}
}

func TestParseQueryPlaceholderInStrings(t *testing.T) {
	s := samples.NewStore()
	s.Append("x", map[string]string{"l": "$phase"}, start, 1)
	for _, query := range []string{`x{l="$phase"} == 1`, "x{l=`$phase`} == 1 # $dollar", `x{l='$phase'} == 1`, `x{l!="\"$other"} == 1`} {
		q, err := samples.ParseQuery(query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if r := q.Instant(s, start, time.Second); r.State != samples.Held {
			t.Errorf("%s: %+v", query, r)
		}
	}
}

// TestLooksBack holds how far before its moment a check reads.
func TestLooksBack(t *testing.T) {
	for _, tt := range []struct {
		query string
		want  time.Duration
	}{
		{`servers > 1`, samples.Lookback},
		{`rate(requests_total[1s]) > 1`, time.Second},
		{`rate(requests_total[500ms]) > 1`, samples.Lookback}, // never less
		{`rate(requests_total[3s]) > 1`, 3 * time.Second},
		{`rate(requests_total[$phase]) > 1`, 2 * time.Second},
		{`rate(requests_total[1s]) / rate(answers_total[4s]) > 1`, 4 * time.Second},
		{`rate(requests_total[1s]) > on() rate(answers_total[5s])`, 5 * time.Second},
		{`servers offset 3s > 1`, 3*time.Second + samples.Lookback},
		{`rate(requests_total[1s] offset 3s) > 1`, 4 * time.Second},
		{`max_over_time(servers[3s:250ms]) > 1`, 3*time.Second + samples.Lookback},
		{`max_over_time(rate(requests_total[2s])[3s:250ms] offset 1s) > 1`, 6 * time.Second},
	} {
		q, err := samples.ParseQuery(tt.query)
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
			continue
		}
		if have := q.LooksBack(2 * time.Second); have != tt.want {
			t.Errorf("%s: looks back %s, want %s", tt.query, have, tt.want)
		}
	}
}
