package faults_test

import (
	"errors"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"relapse/faults"
)

func parameters(t *testing.T, text string) ast.Node {
	t.Helper()
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		t.Fatalf("the test's own yaml: %v", err)
	}
	if len(file.Docs) == 0 {
		return nil
	}
	return file.Docs[0].Body
}

func TestDecodeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, kind, have string
		line, column     int
		field            string // of a FieldError
		want             string
	}{
		{"unknown field", "latency", "links: [a -> b]\nlatncy: 2s", 2, 1, "", `unknown field "latncy" of kind latency: did you mean latency?`},
		{"unknown field, nothing near", "latency", "links: [a -> b]\nlatency: 2s\nquux: 1", 3, 1, "", `unknown field "quux" of kind latency: it has links, latency`},
		{"duration without a unit", "latency", "{links: [a -> b], latency: 200}", 1, 28, "latency", `latency "200" is not a duration: write a number and ms, s, m or h: 100ms, 1.5s`},
		{"rate in the wrong case", "bandwidth", "links: [a -> b]\nrate: 2.5mbit", 2, 7, "rate", `rate "2.5mbit" is not a rate: write a number and bit, kbit, Mbit, Gbit, B, kB, MB or GB (per second): 2.5Mbit, 300kB`},
		{"percentage without its sign", "loss", "percent: 2", 1, 10, "percent", `percent "2" is not a percentage: write a number and %: 2%, 0.5%`},
		{"links that are no list", "refuse", "links: a -> b", 1, 8, "links", "links cannot be read from a -> b: write a list of names"},
		{"flag that is none", "bandwidth", "shared: perhaps", 1, 9, "shared", "shared cannot be read from perhaps: write true or false"},
		{"count that is none", "connection-cap", "connections: 2.5", 1, 14, "connections", "connections cannot be read from 2.5: write a whole number"},
		{"factor that is none", "surge", "times: often", 1, 8, "times", "times cannot be read from often: write a number"},
		{"sides that are no lists", "partition", "sides: [a, b]", 1, 8, "sides", "sides cannot be read from [a, b]: write two lists of names"},
		{"share that is none", "malformed", "percent: half", 1, 10, "percent", `percent "half" is not a percentage: write a number and %: 2%, 0.5%`},
		{"no mapping", "refuse", "[a, b]", 1, 1, "", "parameters are a mapping of names to values"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := faults.Decode(tc.kind, parameters(t, tc.have))
			var placed yaml.Error
			if !errors.As(err, &placed) {
				t.Fatalf("error %v has no place in the file", err)
			}
			if got := placed.GetMessage(); got != tc.want {
				t.Errorf("message %q\nwant    %q", got, tc.want)
			}
			if p := placed.GetToken().Position; p.Line != tc.line || p.Column != tc.column {
				t.Errorf("at %d:%d, want %d:%d", p.Line, p.Column, tc.line, tc.column)
			}
			var field *faults.FieldError
			if errors.As(err, &field) != (tc.field != "") || tc.field != "" && field.Field != tc.field {
				t.Errorf("field error %+v, want one about %q", field, tc.field)
			}
		})
	}
}

func TestDecodeUnknownKind(t *testing.T) {
	for _, tc := range []struct{ have, want string }{
		{"latncy", `unknown fault kind "latncy": did you mean latency?`},
		{"black-hole", `unknown fault kind "black-hole": did you mean blackhole?`},
	} {
		_, err := faults.Decode(tc.have, nil)
		var unknown *faults.UnknownKindError
		if !errors.As(err, &unknown) || unknown.Kind != tc.have || len(unknown.Known) != len(faults.Kinds()) {
			t.Errorf("%s: error %#v, want an UnknownKindError with all kinds", tc.have, err)
			continue
		}
		if err.Error() != tc.want {
			t.Errorf("error %q, want %q", err, tc.want)
		}
	}
}

func TestExamplesDecodeAndValidate(t *testing.T) {
	for _, k := range faults.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			f, err := faults.Decode(k.Name, parameters(t, k.Example))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Validate(); err != nil {
				t.Error(err)
			}
			targets := 0
			if _, ok := f.(faults.LinkFault); ok {
				targets++
			}
			// A kind on hosts may take nodes as well.
			_, onHosts := f.(faults.HostFault)
			if _, ok := f.(faults.NodeFault); ok || onHosts {
				targets++
			}
			if _, ok := f.(faults.TrafficFault); ok {
				targets++
			}
			if _, ok := f.(faults.FrontFault); ok {
				targets++
			}
			if _, ok := f.(faults.FleetFault); ok {
				targets++
			}
			if targets != 1 {
				t.Errorf("it is %d of LinkFault, NodeFault or HostFault, TrafficFault, FrontFault, and FleetFault, want one", targets)
			}
			if onHosts != (k.Group == faults.GroupHost) {
				t.Errorf("it is a HostFault: %t, and in group %s", onHosts, k.Group)
			}
		})
	}
}

func TestParseRate(t *testing.T) {
	for _, tc := range []struct {
		have string
		want faults.Rate
		text string
	}{
		{"2.5Mbit", 312500, "2.5Mbit"}, {"2.5 Mbit/s", 312500, "2.5Mbit"}, {"300kB", 300000, "2.4Mbit"},
		{"1GB", 1e9, "8Gbit"}, {"800bit", 100, "800bit"}, {"64kbit", 8000, "64kbit"}, {"12B", 12, "96bit"}, {"0kB", 0, "0bit"}, {"-1MB", -1e6, "-8Mbit"},
	} {
		got, err := faults.ParseRate(tc.have)
		if err != nil || got != tc.want || got.String() != tc.text {
			t.Errorf("%s: %v (%s), %v; want %v (%s)", tc.have, float64(got), got, err, float64(tc.want), tc.text)
		}
	}
	for _, bad := range []string{"", "300", "kB", "300 KB", "300KiB", "2,5Mbit", "300kB/m", "fast", "NaNMbit", "infB", "1e308GB", "-1e308GB", "1e309B"} {
		var unit *faults.UnitError
		if _, err := faults.ParseRate(bad); !errors.As(err, &unit) || unit.Text != bad {
			t.Errorf("%q: error %v, want a UnitError", bad, err)
		}
	}
}

func TestParsePercent(t *testing.T) {
	for _, tc := range []struct {
		have string
		want faults.Percent
	}{{"2%", 2}, {"0.5 %", 0.5}, {"100%", 100}, {"-3%", -3}} {
		if got, err := faults.ParsePercent(tc.have); err != nil || got != tc.want {
			t.Errorf("%s: %v, %v; want %v", tc.have, float64(got), err, float64(tc.want))
		}
	}
	for _, bad := range []string{"", "2", "%", "two%", "0.02"} {
		var unit *faults.UnitError
		if _, err := faults.ParsePercent(bad); !errors.As(err, &unit) {
			t.Errorf("%q: error %v, want a UnitError", bad, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, tc := range []struct {
		have string
		want faults.Size
		text string
	}{
		{"64m", 64 << 20, "64m"}, {"64 MiB", 64 << 20, "64m"}, {"1g", 1 << 30, "1g"}, {"512k", 512 << 10, "512k"},
		{"1.5g", 3 << 29, "1.5g"}, {"100b", 100, "100B"}, {"0m", 0, "0B"},
	} {
		got, err := faults.ParseSize(tc.have)
		if err != nil || got != tc.want || got.String() != tc.text {
			t.Errorf("%s: %d (%s), %v; want %d (%s)", tc.have, int64(got), got, err, int64(tc.want), tc.text)
		}
	}
	for _, bad := range []string{"", "64", "64.", "m", "-64m", "64x", "64 m m", "much", "6,4m", "99999999999g"} {
		var unit *faults.UnitError
		if _, err := faults.ParseSize(bad); !errors.As(err, &unit) || unit.Text != bad {
			t.Errorf("%q: error %v, want a UnitError", bad, err)
		}
	}
}
