package samples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// WriteOpenMetrics writes every sample as OpenMetrics 1.0 text with timestamps,
// series by series in order of name and labels, ending in "# EOF". All metrics
// are of unknown type, which the format means by leaving the type out: what a
// counter was is a matter of its name here, and histograms stay the series that
// they were scraped as. `promtool tsdb create-blocks-from openmetrics` reads it.
func (s *Store) WriteOpenMetrics(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var head, line []byte
	for _, x := range s.snapshot() {
		name := x.labels.Get(labels.MetricName)
		if !model.LegacyValidation.IsValidMetricName(name) {
			return fmt.Errorf("series %s: its name cannot be written as OpenMetrics 1.0: use letters, digits, _ and :", x.labels)
		}
		head = appendSeries(head[:0], name, x.labels)
		for _, p := range x.points {
			line = append(line[:0], head...)
			line = append(line, ' ')
			line = appendValue(line, p.v)
			line = append(line, ' ')
			line = appendTime(line, p.t)
			line = append(line, '\n')
			if _, err := out.Write(line); err != nil {
				return fmt.Errorf("writing samples: %w", err)
			}
		}
	}
	if _, err := out.WriteString("# EOF\n"); err != nil {
		return fmt.Errorf("writing samples: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing samples: %w", err)
	}
	return nil
}

func appendSeries(b []byte, name string, l labels.Labels) []byte {
	b = append(b, name...)
	separator := byte('{')
	l.Range(func(x labels.Label) {
		if x.Name == labels.MetricName {
			return
		}
		b = append(b, separator)
		b = append(b, x.Name...)
		b = append(b, '=', '"')
		for i := range len(x.Value) {
			switch c := x.Value[i]; c {
			case '\\', '"':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			default:
				b = append(b, c)
			}
		}
		b = append(b, '"')
		separator = ','
	})
	if separator == ',' {
		b = append(b, '}')
	}
	return b
}

// appendTime writes milliseconds as seconds. Prometheus' reader (and so [Read])
// multiplies by 1000 in floating point and cuts off. That gives the millisecond
// before for some times near 1970, which only tests have; such a time is written
// as the next larger float, which comes out right.
func appendTime(b []byte, t int64) []byte {
	seconds := float64(t) / 1000
	if int64(seconds*1000) == t {
		return strconv.AppendFloat(b, seconds, 'f', 3, 64)
	}
	return strconv.AppendFloat(b, math.Nextafter(seconds, math.Inf(1)), 'f', -1, 64)
}

func appendValue(b []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "NaN"...)
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case math.IsInf(v, -1):
		return append(b, "-Inf"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// Bounds of what is read: a file of a few kilobytes may unpack to any size.
const (
	mostText    = 1 << 30           // bytes of text
	longestLine = 1 << 20           // bytes of one line of it, which is a sample
	latestTime  = 7_258_118_400_000 // milliseconds; the year 2200, well before nanoseconds end
)

// Read reads what [Store.WriteOpenMetrics] wrote. A text without "# EOF" was cut
// off and is refused, and so is a sample without a timestamp, one that is not later
// than the one before it of its series, and what is too large to be of a play.
func Read(r io.Reader) (*Store, error) {
	in := bufio.NewReaderSize(r, longestLine)
	t := text{store: NewStore()}
	for total := 0; ; {
		// Whole lines, as many as there are: what is in the buffer, or comes next.
		part, err := in.Peek(longestLine)
		whole := bytes.LastIndexByte(part, '\n') + 1
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("reading samples: %w", err)
		case whole == 0 && err == nil:
			return nil, fmt.Errorf("reading samples: line %d has more than %d KiB", t.lines+1, longestLine>>10)
		case err != nil:
			whole = len(part)
		}
		if whole == 0 {
			break
		}
		if total += whole; total > mostText {
			return nil, fmt.Errorf("reading samples: there are more than %d MiB of them", mostText>>20)
		}
		if err := t.read(part[:whole]); err != nil {
			return nil, fmt.Errorf("reading samples as OpenMetrics: %w", err)
		}
		if _, err := in.Discard(whole); err != nil {
			return nil, fmt.Errorf("reading samples: %w", err)
		}
	}
	if !t.ended {
		return nil, fmt.Errorf("reading samples as OpenMetrics: line %d: the text does not end with # EOF", t.lines)
	}
	return t.store, nil
}

// text is samples that are read part by part.
type text struct {
	store   *Store
	lines   int
	ended   bool
	current *series
	raw     string // the current series as the text spells it
}

// textEnd ends a text; the parser asks for it, and so every part is given one.
const textEnd = "# EOF\n"

// read takes a part of whole lines, or the rest without a line break.
func (t *text) read(part []byte) error {
	if t.ended {
		return fmt.Errorf("line %d: there is more after # EOF", t.lines+1)
	}
	lines := bytes.Count(part, []byte("\n"))
	rest, ended := bytes.CutSuffix(part, []byte(textEnd))
	if !ended {
		rest, ended = bytes.CutSuffix(part, []byte(strings.TrimSpace(textEnd)))
	}
	if ended = ended && (len(rest) == 0 || rest[len(rest)-1] == '\n'); !ended {
		rest = part
	}
	if err := t.parse(append(rest[:len(rest):len(rest)], textEnd...)); err != nil {
		return err
	}
	t.lines, t.ended = t.lines+lines, ended
	return nil
}

func (t *text) parse(part []byte) error {
	p := textparse.NewOpenMetricsParser(part, labels.NewSymbolTable())
	for n := 1; ; n++ {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && entry == textparse.EntrySeries {
			err = t.sample(p)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", t.lines+n, err)
		}
	}
}

// sample keeps what the parser has read last.
func (t *text) sample(p textparse.Parser) error {
	b, at, v := p.Series()
	switch {
	case at == nil:
		return fmt.Errorf("%s has no timestamp", b)
	case *at < 0 || *at > latestTime:
		return fmt.Errorf("%s has a sample that is not of this age", b)
	case b[0] == '{': // a name in quotes, as none is written
		return fmt.Errorf("%s has no name before its labels", b)
	}
	if t.current == nil || t.raw != string(b) {
		var l labels.Labels
		p.Labels(&l)
		if name, twice := l.HasDuplicateLabelNames(); twice {
			return fmt.Errorf("%s has label %s twice", b, name)
		}
		t.current, t.raw = t.store.find(l), string(b)
	}
	// Written in order of time. Sorting in what is not would take the square of it.
	if n := len(t.current.points); n > 0 && t.current.points[n-1].t >= *at {
		return fmt.Errorf("%s has a sample of %d ms after one of %d ms: its times go backwards", b, *at, t.current.points[n-1].t)
	}
	t.current.append(point{*at, v})
	return nil
}
