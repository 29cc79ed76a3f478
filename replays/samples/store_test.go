package samples_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"relapse/replays/samples"
)

func formatFloat(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// promtool finds Prometheus' own tool. Where CI is promised it must be there.
func promtool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("promtool: %v: install Debian's package prometheus", err)
		}
		t.Skipf("promtool: %v: install Debian's package prometheus", err)
	}
	return path
}

func curves(t *testing.T, s *samples.Store, expr string, from, to time.Time) []samples.Curve {
	t.Helper()
	c, err := s.Curves(expr, from, to, samples.Period)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOpenMetricsRoundTrip(t *testing.T) {
	s := filled()
	s.Append("odd", map[string]string{"l": "a\"b\\c\nd ü"}, start, -1.5e-300)
	for i := range 5000 { // every millisecond must come back as itself
		s.Append("dense", nil, start.Add(time.Duration(i)*time.Millisecond), float64(i))
		s.Append("early", nil, time.UnixMilli(int64(i)), float64(i))
	}
	var first bytes.Buffer
	if err := s.WriteOpenMetrics(&first); err != nil {
		t.Fatal(err)
	}
	back, err := samples.Read(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Series(), back.Series()); diff != "" {
		t.Errorf("series (-written +read):\n%s", diff)
	}
	var second bytes.Buffer
	if err := back.WriteOpenMetrics(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("what was read is written otherwise")
	}
	for name, from := range map[string]time.Time{"dense": start, "early": time.UnixMilli(0)} {
		every, err := back.Curves(name, from, from.Add(4999*time.Millisecond), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range every[0].Points {
			if p.Value != float64(i) {
				t.Fatalf("%s: millisecond %d came back as %v", name, i, p.Value)
			}
		}
	}
}

func TestOpenMetricsText(t *testing.T) {
	s := samples.NewStore()
	s.Append("b_total", map[string]string{"node": "n", "empty": ""}, time.UnixMilli(1500), 2)
	s.Append("b_total", map[string]string{"node": "n"}, time.UnixMilli(1250), 0.1)
	s.Append("b_total", map[string]string{"node": "n"}, time.UnixMilli(1500), 3)
	s.Append("a", nil, time.UnixMilli(0), math.Inf(-1))
	var b strings.Builder
	if err := s.WriteOpenMetrics(&b); err != nil {
		t.Fatal(err)
	}
	want := "a -Inf 0.000\nb_total{node=\"n\"} 0.1 1.250\nb_total{node=\"n\"} 3 1.500\n# EOF\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestOpenMetricsRefused(t *testing.T) {
	for _, tt := range []struct{ name, have string }{
		{"cut off", "a 1 1.000\n"},
		{"empty", ""},
		{"no timestamp", "a 1\n# EOF\n"},
		{"no number", "a x 1.000\n# EOF\n"},
		{"no line break at its end", "a 1 1.000"},
		{"more behind its end", "a 1 1.000\n# EOF\na 1 2.000\n# EOF\n"},
		{"more than a line takes", strings.Repeat("a", 2<<20) + " 1 1.000\n# EOF\n"},
		{"more behind its end, in another part", "a 1 1.000\n# EOF\n" + strings.Repeat("b 1 1.000\n", 200_000) + "# EOF\n"},
		{"times that go back", "a 1 1.000\na 1 0.999\n# EOF\n"},
		{"times that go back, in between another series", "a 1 1.000\nb 1 1.000\na 1 0.999\n# EOF\n"},
		{"a time twice", "a 1 1.000\na 2 1.000\n# EOF\n"},
		{"a time below zero", "a 1 -1.000\n# EOF\n"},
		{"a time beyond all time", "a 1 1e300\n# EOF\n"},
		{"no name", "{a=\"b\"} 1 1.000\n# EOF\n"},
		{"neither name nor label", "{} 1 1.000\n# EOF\n"},
		{"a label twice", "a{b=\"1\",b=\"2\"} 1 1.000\n# EOF\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := samples.Read(strings.NewReader(tt.have)); err == nil {
				t.Error("want an error, got none")
			}
		})
	}
	s := samples.NewStore()
	s.Append("not a name", nil, start, 1)
	if err := s.WriteOpenMetrics(&bytes.Buffer{}); err == nil {
		t.Error("a name that cannot be written: want an error, got none")
	}
}

func TestOpenMetricsPromtool(t *testing.T) {
	tool := promtool(t)
	s := filled()
	dir := t.TempDir()
	file := filepath.Join(dir, "samples.om")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteOpenMetrics(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	blocks := filepath.Join(dir, "blocks")
	if out, err := exec.Command(tool, "tsdb", "create-blocks-from", "openmetrics", file, blocks).CombinedOutput(); err != nil {
		t.Fatalf("promtool does not import it: %v\n%s", err, out)
	}
	// promtool's dump wants the log that a server would have.
	if err := os.Mkdir(filepath.Join(blocks, "wal"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "tsdb", "dump", blocks).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool tsdb dump: %v\n%s", err, out)
	}
	want := 0
	for _, x := range s.Series() {
		want += x.Samples
	}
	if have := strings.Count(string(out), "\n"); have != want {
		t.Errorf("promtool imported %d samples of %d", have, want)
	}
	if line := fmt.Sprintf(`{__name__="requests_total", outcome="ok"} 25 %d`, start.Add(samples.Period).UnixMilli()); !strings.Contains(string(out), line) {
		t.Errorf("promtool has not imported %s", line)
	}
}

func TestStoreOrder(t *testing.T) {
	s := samples.NewStore()
	for _, i := range []int{3, 1, 2, 0, 2, 4} {
		s.Append("x", nil, start.Add(time.Duration(i)*samples.Period), float64(i))
	}
	c := curves(t, s, "x", start, start.Add(time.Second))
	var have []float64
	for _, p := range c[0].Points {
		have = append(have, p.Value)
	}
	if diff := cmp.Diff([]float64{0, 1, 2, 3, 4}, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestStoreConcurrent(t *testing.T) {
	s := samples.NewStore()
	q, err := samples.ParseQuery(`sum(x) >= 0`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 { // half of them out of order
				at := start.Add(time.Duration(i^1) * time.Millisecond)
				s.Append("x", map[string]string{"g": strconv.Itoa(g % 2), "i": strconv.Itoa(i % 7)}, at, 1)
			}
		})
		wg.Go(func() {
			for range 20 {
				q.Instant(s, start.Add(200*time.Millisecond), 0)
				s.Series()
				if err := s.WriteOpenMetrics(&bytes.Buffer{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r := q.Instant(s, start.Add(499*time.Millisecond), 0); r.Got != "14" {
		t.Errorf("want 14 series, got %s", r.Got)
	}
}

func TestCurves(t *testing.T) {
	s := filled()
	c := curves(t, s, `sum by (outcome) (rate(requests_total[1s]))`, start.Add(5*time.Second), start.Add(5500*time.Millisecond))
	want := []samples.Curve{
		{Labels: map[string]string{"outcome": "error"}, Points: []samples.Point{
			{At: start.Add(5 * time.Second), Value: 1}, {At: start.Add(5250 * time.Millisecond), Value: 1}, {At: start.Add(5500 * time.Millisecond), Value: 1}}},
		{Labels: map[string]string{"outcome": "ok"}, Points: []samples.Point{
			{At: start.Add(5 * time.Second), Value: 100}, {At: start.Add(5250 * time.Millisecond), Value: 100}, {At: start.Add(5500 * time.Millisecond), Value: 100}}},
	}
	if diff := cmp.Diff(want, c, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
	for expr, want := range map[string]string{
		`sum(rate(requests_total[1s]))`: "", `sum(requests_totl) or vector(0)`: "requests_totl", `requests_total{outcome="fine"}`: "", `sum(`: "",
	} {
		if have := strings.Join(s.Absent(expr), " "); have != want {
			t.Errorf("%s: absent %q, want %q", expr, have, want)
		}
	}
	for _, expr := range []string{`requests_total[1s]`, `"text"`, `sum(`} {
		if _, err := s.Curves(expr, start, start, samples.Period); err == nil {
			t.Errorf("%s: want an error, got none", expr)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	s := samples.NewStore()
	lset := map[string]string{"op": "login", "outcome": "ok", "node": "players"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Append("relapse_requests_total", lset, start.Add(time.Duration(i)*time.Millisecond), float64(i))
	}
}

// BenchmarkRange asks a check at every scrape of two minutes, of a store with
// 500 series.
func BenchmarkRange(b *testing.B) {
	s := samples.NewStore()
	for i := range 481 {
		at := start.Add(time.Duration(i) * samples.Period)
		for j := range 500 {
			s.Append(fmt.Sprintf("metric_%d_total", j/10), map[string]string{"i": strconv.Itoa(j % 10)}, at, float64(i*j))
		}
	}
	q, err := samples.ParseQuery(`sum(rate(metric_3_total[5s])) / sum(rate(metric_4_total[5s])) >= 0.5`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(q.Range(s, start, start.Add(2*time.Minute), samples.Period, 0)); n != 481 {
			b.Fatal(n)
		}
	}
}
