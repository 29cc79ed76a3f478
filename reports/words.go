package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"relapse/replays"
)

// arms as the design names them; everything else about an arm is in its verdict.
const (
	armHealthy = "healthy"
	armUnfixed = "unfixed"
	preCause   = "without-"
	preFix     = "fix-"
	underMark  = "-under-"
	onMark     = "-on-"
)

// isUnfixed tells the incident itself, on its own trigger or on another.
func isUnfixed(arm string) bool {
	return arm == armUnfixed || strings.HasPrefix(arm, armUnfixed+onMark)
}

// fixArm gives the arm of the fix that an arm belongs to, given all arms that
// were played; "" where it belongs to none.
func fixArm(arm string, all []replays.ArmVerdict) string {
	if !strings.HasPrefix(arm, preFix) {
		return ""
	}
	base := arm
	for _, a := range all {
		shorter := len(a.Arm) < len(base) && strings.HasPrefix(a.Arm, preFix)
		if shorter && (strings.HasPrefix(arm, a.Arm+underMark) || strings.HasPrefix(arm, a.Arm+onMark)) {
			base = a.Arm
		}
	}
	base, _, _ = strings.Cut(base, underMark) // the fix alone was not played
	return base
}

// symbol stands beside the word everywhere, so that no reader needs colour.
func symbol(o replays.Outcome) string {
	switch replays.Worst(o) {
	case replays.Pass:
		return "✓"
	case replays.Fail:
		return "✗"
	default:
		return "?"
	}
}

// marksText is the legend of the symbols: what is as expected can be an outage.
const marksText = "✓ as expected, also where an objective is missed that this arm should miss; ✗ not as expected; ? unknown"

// plural gives "1 fix", "2 fixes".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// number shortens a value that is one number to four significant digits and
// leaves every other text as it is.
func number(s string) string {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return s
	}
	return short(v)
}

func short(v float64) string {
	abs := math.Abs(v)
	switch {
	case abs != 0 && (abs >= 1e9 || abs < 1e-4):
		return strconv.FormatFloat(v, 'g', 3, 64)
	case abs >= 1000:
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(r, 'f', -1, 64)
}

// inUnit writes a value of a series as people say it.
func inUnit(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "no sample"
	case unit == "ratio":
		return short(math.Round(v*1000)/10) + " %"
	case unit == "":
		return short(v)
	}
	return short(v) + " " + unit
}

func seconds(s float64) string {
	switch {
	case s >= 600:
		return fmt.Sprintf("%d min", int(math.Round(s/60)))
	case s >= 100:
		return fmt.Sprintf("%.0f s", s)
	case s >= 10:
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.2f s", s)
}

func bytesText(n int64) string {
	switch {
	case n <= 0:
		return "not recorded"
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
}

// promise is how far a finding is from breaking what its arm promises: the
// check's margin where it should hold, the opposite where it should not. None
// where nothing is promised, or where an equality leaves no room by its nature.
func promise(f replays.Finding) (float64, bool) {
	if f.Margin == nil || f.Expected == nil || strings.HasPrefix(f.Want, "==") || strings.HasPrefix(f.Want, "!=") {
		return 0, false
	}
	if *f.Expected {
		return *f.Margin, true
	}
	return -*f.Margin, true
}

// zeroLimit says that a limit is 0, so that a margin is a distance and no share.
func zeroLimit(want string) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimLeft(want, "<>=! ")), 64)
	return err == nil && v == 0
}

// marginText writes a promise's margin: how much room was left, or how much was
// missing.
func marginText(f replays.Finding) string {
	m, ok := promise(f)
	if !ok {
		return ""
	}
	room := "to spare"
	if m < 0 {
		room, m = "short", -m
	}
	switch {
	case zeroLimit(f.Want):
		return short(m) + " " + room
	case m >= 10:
		return "over 1000 % " + room
	case m < 0.1:
		digits := 1
		if m < 0.001 {
			digits = 2
		}
		return strconv.FormatFloat(m*100, 'f', digits, 64) + " % " + room
	}
	return fmt.Sprintf("%.0f %% %s", m*100, room)
}

// tightest gives the finding whose promise had the least room.
func tightest(fs []replays.Finding) (replays.Finding, bool) {
	var found replays.Finding
	least := math.Inf(1)
	for _, f := range fs {
		if m, ok := promise(f); ok && m < least {
			least, found = m, f
		}
	}
	return found, !math.IsInf(least, 1)
}

// relation writes a limit as a reader says it of a value: "≥ 0.99" where it
// holds, "not ≥ 0.99" where it does not. Wants that are no comparison stay words.
func relation(f replays.Finding) string {
	for _, op := range []struct{ code, sign string }{{">=", "≥"}, {"<=", "≤"}, {"==", "="}, {"!=", "≠"}, {">", ">"}, {"<", "<"}} {
		limit, ok := strings.CutPrefix(f.Want, op.code)
		if !ok {
			continue
		}
		text := op.sign + " " + number(strings.TrimSpace(limit))
		if f.Held != nil && !*f.Held {
			text = "not " + text
		}
		return text
	}
	if f.Want == "" || f.Want == f.Got {
		return ""
	}
	return "(want " + f.Want + ")"
}

// armTightest gives an arm's tightest promise in the phases in which symptoms
// are looked for: how much room there is before anything is broken says little.
func armTightest(a replays.ArmVerdict) (replays.Finding, bool) {
	var broken []string
	for _, f := range a.Findings {
		if f.Kind == replays.KindSymptom {
			broken = append(broken, f.Phase)
		}
	}
	var there []replays.Finding
	for _, f := range a.Findings {
		if slices.Contains(broken, f.Phase) {
			there = append(there, f)
		}
	}
	if f, ok := tightest(there); ok {
		return f, true
	}
	return tightest(a.Findings)
}

// deciding says in one line what made an arm's outcome.
func deciding(a replays.ArmVerdict) string {
	outcome := replays.Worst(a.Outcome)
	if outcome == replays.Unknown {
		for _, g := range a.Validity {
			return g.Gate + ": " + g.Reason
		}
	}
	for _, f := range a.Findings {
		if outcome != replays.Pass && replays.Worst(f.Outcome) == outcome {
			return findingText(f)
		}
	}
	for _, g := range a.Validity {
		return g.Gate + ": " + g.Reason
	}
	if outcome != replays.Pass {
		return "no finding says why"
	}
	if f, ok := armTightest(a); ok {
		return "tightest: " + findingText(f)
	}
	return plural(len(a.Findings), "check", "checks") + " as expected"
}

func findingText(f replays.Finding) string {
	at := f.Check
	if f.Phase != "" {
		at += " (" + f.Phase + ")"
	}
	if f.Held == nil {
		return at + ": " + orElse(f.Reason, "could not be seen")
	}
	text := strings.TrimSpace(at + ": " + orElse(number(f.Got), "nothing") + " " + relation(f))
	switch {
	case f.Reason != "":
		return text + ": " + f.Reason
	case f.Expected == nil:
		return text + ", nothing promised"
	case *f.Expected == *f.Held && !*f.Held:
		return text + ", as it should be"
	case *f.Expected != *f.Held && *f.Held: // an outage or a symptom that should be cured
		return text + ", but should not be"
	}
	return text
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// kOfN says how many plays came out as they should.
func kOfN(a replays.ArmVerdict) string {
	text := fmt.Sprintf("%d of %d", a.Passed, a.Plays)
	if a.Unknown > 0 {
		text += fmt.Sprintf(", %d unknown", a.Unknown)
	}
	return text
}

// armName is an arm's name in running text.
func armName(arm string) string {
	if rest, ok := strings.CutPrefix(arm, armUnfixed); ok {
		return "un-fixed" + strings.ReplaceAll(rest, onMark, " on ")
	}
	return arm
}
