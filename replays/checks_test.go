package replays_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"relapse/replays"
	"relapse/replays/samples"
)

// madeUp are a few samples that were made up to tell what a check sees in them.
// Those of a check are in INCIDENT/checks/CHECK.yaml.
type madeUp struct {
	Says string `yaml:"says"`
	Want string `yaml:"want"` // holds, fails or unknown, in each phase in which the check is read
	// Samples has a line for each series, as a scrape writes it: its value, or by how
	// much it rises (30/s), the same in all of the play.
	Samples string `yaml:"samples"`
}

// What a check says of samples.
const (
	holds   = "holds"
	fails   = "fails"
	unknown = "unknown"
)

// TestEveryCheckCanFail holds that of each check of the library made-up samples show
// that it can hold and that it can fail: what comes out the same whatever is measured
// proves nothing.
func TestEveryCheckCanFail(t *testing.T) {
	for _, name := range replays.LibraryNames() {
		ids := checksOf(findIncident(t, name))
		for _, id := range ids {
			cases := madeUpOf(t, name, id)
			shown := slices.ContainsFunc(cases, wants(holds)) && slices.ContainsFunc(cases, wants(fails))
			if !shown {
				t.Errorf("%s: no samples show that %s can hold and fail: make up some in %s", name, id, madeUpFile(name, id))
			}
		}
		files, err := filepath.Glob(filepath.Join(name, "checks", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if id, isYAML := strings.CutSuffix(filepath.Base(file), ".yaml"); !isYAML || !slices.Contains(ids, id) {
				t.Errorf("%s belongs to no check of the incident", file)
			}
		}
	}
}

// TestChecksOnMadeUpSamples holds that each check says of its made-up samples what
// they were made up for, and nothing of samples that are none of its phases'.
func TestChecksOnMadeUpSamples(t *testing.T) {
	judged := 0
	for _, name := range replays.LibraryNames() {
		inc := findIncident(t, name)
		for _, id := range checksOf(inc) {
			for _, m := range madeUpOf(t, name, id) {
				judged++
				t.Run(name+"/"+id+"/"+m.Says, func(t *testing.T) {
					p := plan(t, inc, "unfixed")
					during := m.store(t, -0.25, p.Length()+0.25)
					wantSeen(t, "the samples", p, id, during, m.Want)
					wantSeen(t, "no samples", p, id, samples.NewStore(), unknown)
					wantSeen(t, "the samples, a minute before the play", p, id, m.store(t, -60, -50), unknown)
				})
			}
		}
	}
	if judged == 0 {
		t.Error("no check was judged")
	}
}

// TestMadeUpSamples holds that samples which are written wrong are not taken for
// samples that say nothing.
func TestMadeUpSamples(t *testing.T) {
	for _, tc := range []struct {
		name, samples string
		series        int // that come of it; 0 where it is refused
	}{
		{"a value and a rate", "up 1\nx_total{a=\"b c\"} 3.5/s\n", 2},
		{"none", "", 0},
		{"no value", "up\n", 0},
		{"no number", "up one\n", 0},
		{"a rate by another time", "x_total 3/m\n", 0},
		{"a rate that is no number", "x_total NaN/s\n", 0},
		{"no series", "up{a=b} 1\n", 0},
		{"a series twice", "up 1\nup 2\n", 0},
	} {
		store, err := madeUp{Samples: tc.samples}.read(0, 1)
		if tc.series == 0 {
			if err == nil {
				t.Errorf("%s: accepted, want an error", tc.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		all := store.Series()
		if len(all) != tc.series {
			t.Errorf("%s: have %d series, want %d", tc.name, len(all), tc.series)
		}
		for _, s := range all {
			if s.Samples != 5 {
				t.Errorf("%s: have %d samples of %s, want one every quarter of a second", tc.name, s.Samples, s.Name)
			}
		}
	}
}

func findIncident(t *testing.T, name string) *replays.Incident {
	t.Helper()
	inc, err := replays.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return inc
}

func checksOf(inc *replays.Incident) []string {
	var ids []string
	for _, c := range slices.Concat(inc.Symptoms, inc.Objectives, inc.Invariants) {
		ids = append(ids, c.ID)
	}
	return ids
}

func madeUpFile(incident, check string) string {
	return filepath.Join(incident, "checks", check+".yaml")
}

// madeUpOf reads the made-up samples of a check; none where there is no file.
func madeUpOf(t *testing.T, incident, check string) []madeUp {
	t.Helper()
	file := madeUpFile(incident, check)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases []madeUp
	if err := yaml.UnmarshalWithOptions(text, &cases, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for n, m := range cases {
		if m.Says == "" || !slices.Contains([]string{holds, fails, unknown}, m.Want) {
			t.Fatalf("%s: case %d says %q and wants %q, want a sentence, and one of holds, fails and unknown", file, n+1, m.Says, m.Want)
		}
	}
	return cases
}

func wants(what string) func(madeUp) bool {
	return func(m madeUp) bool { return m.Want == what }
}

// store is what was measured between two moments, in seconds since the first phase
// began.
func (m madeUp) store(t *testing.T, from, to float64) *samples.Store {
	t.Helper()
	store, err := m.read(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (m madeUp) read(from, to float64) (*samples.Store, error) {
	// A reader of series there is already: that of records.
	var text strings.Builder
	seen := map[string]bool{}
	for line := range strings.Lines(m.Samples) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			return nil, fmt.Errorf("%q is no series and its value", line)
		}
		series, figure := line[:end], line[end+1:]
		number, rises := strings.CutSuffix(figure, "/s")
		value, err := strconv.ParseFloat(number, 64)
		if err != nil || rises && (math.IsNaN(value) || math.IsInf(value, 0)) {
			return nil, fmt.Errorf("%q: %q is neither a number nor one a second, as 30/s", line, figure)
		}
		if seen[series] {
			return nil, fmt.Errorf("%q: the series is there twice", line)
		}
		seen[series] = true
		for s := from; s <= to; s += samples.Period.Seconds() {
			at, v := playStart.Add(time.Duration((headStart+s)*float64(time.Second))), value
			if rises {
				v = value * (s - from)
			}
			fmt.Fprintf(&text, "%s %g %.3f\n", series, v, float64(at.UnixMilli())/1000)
		}
	}
	if text.Len() == 0 {
		return nil, errors.New("there are no samples")
	}
	text.WriteString("# EOF\n")
	return samples.Read(strings.NewReader(text.String()))
}

// wantSeen holds what the judge makes of one check in each of its phases.
func wantSeen(t *testing.T, of string, p *replays.Plan, id string, store *samples.Store, want string) {
	t.Helper()
	n := slices.IndexFunc(p.Checks, func(c replays.PlannedCheck) bool { return c.ID == id })
	if n < 0 {
		t.Fatalf("the plan has no check %s", id)
	}
	alone := *p
	alone.Checks, alone.Alerts, alone.Class, alone.Ladder = p.Checks[n:n+1], nil, nil, nil
	r := &replays.Record{Plan: &alone, Samples: store}
	for _, e := range playEvents(&alone) {
		e.At = playStart.Add(time.Duration(e.T * float64(time.Second)))
		r.Events = append(r.Events, e)
	}
	found := 0
	for _, f := range replays.JudgePlay(r).Findings {
		if f.Check != id {
			continue // that no objective failed
		}
		found++
		have := unknown
		switch {
		case f.Held == nil:
		case *f.Held:
			have = holds
		default:
			have = fails
		}
		if have != want {
			t.Errorf("%s during %s, of %s: %s, want %s: got %q, want %q %s", id, f.Phase, of, have, want, f.Got, f.Want, f.Reason)
		}
	}
	if found == 0 {
		t.Errorf("%s is read in no phase", id)
	}
}
