package samples

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

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

// Read reads what [Store.WriteOpenMetrics] wrote. A text without "# EOF" was cut
// off and is refused, and so is a sample without a timestamp.
func Read(r io.Reader) (*Store, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	s := NewStore()
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	var (
		current *series
		raw     string // the current series as the text spells it
	)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading samples as OpenMetrics: %w", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		b, at, v := p.Series()
		if at == nil {
			return nil, fmt.Errorf("reading samples as OpenMetrics: %s has no timestamp", b)
		}
		if current == nil || raw != string(b) {
			var l labels.Labels
			p.Labels(&l)
			current, raw = s.find(l), string(b)
		}
		current.append(point{*at, v})
	}
}
