package topologies_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"relapse/topologies"
)

// TestFileErrorOfALongLine holds that of a line that would fill a terminal what
// stands around the column is shown.
func TestFileErrorOfALongLine(t *testing.T) {
	line := strings.Repeat("é", 500) + "x" + strings.Repeat("é", 500)
	for _, test := range []struct {
		name          string
		column        int
		before, after int // characters shown
		cut           [2]bool
	}{
		{"at its beginning", 1, 0, 239, [2]bool{false, true}},
		{"in its middle", 501, 120, 119, [2]bool{true, true}},
		{"at its end", 1001, 120, 0, [2]bool{true, false}},
		{"behind its end", 2000, 120, -1, [2]bool{true, false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines := strings.Split(topologies.NewFileError("a.yaml", []byte(line), 1, test.column, "wrong", "").Error(), "\n")
			if len(lines) != 3 {
				t.Fatalf("have %d lines, want 3", len(lines))
			}
			shown, caret := []rune(strings.TrimPrefix(lines[1], "  ")), strings.TrimPrefix(lines[2], "  ")
			ends := 0
			for n, cut := range test.cut {
				if cut {
					ends++
				}
				if have := shown[n*(len(shown)-1)] == '…'; have != cut {
					t.Errorf("cut at end %d: have %v, want %v", n, have, cut)
				}
			}
			want := test.before
			if test.cut[0] {
				want++
			}
			if have := strings.Index(caret, "^"); test.column <= 1001 && have != want {
				t.Errorf("the caret stands below character %d, want %d", have, want)
			}
			if have := len(shown) - ends; have != test.before+1+test.after {
				t.Errorf("have %d characters of the line, want %d", have, test.before+1+test.after)
			}
		})
	}
}

func TestFileError(t *testing.T) {
	src := []byte("phases:\r\n\t- nmae: héalthy stall\nlast")
	for _, test := range []struct {
		name         string
		line, column int
		hint, want   string
	}{
		{"tabs keep their width", 2, 4, "did you mean \"name\"?",
			"a.yaml:2:4: unknown field\n  \t- nmae: héalthy stall\n  \t  ^\n  did you mean \"name\"?"},
		{"columns are characters", 2, 18, "", "a.yaml:2:18: unknown field\n  \t- nmae: héalthy stall\n  \t                ^"},
		{"a line break of two bytes", 1, 1, "", "a.yaml:1:1: unknown field\n  phases:\n  ^"},
		{"the last line", 3, 1, "", "a.yaml:3:1: unknown field\n  last\n  ^"},
		{"past the end of its line", 3, 99, "", "a.yaml:3:99: unknown field\n  last\n      ^"},
		{"past the end of the file", 9, 1, "", "a.yaml:9:1: unknown field"},
		{"the whole file", 0, 0, "see the manual", "a.yaml: unknown field\n  see the manual"},
	} {
		t.Run(test.name, func(t *testing.T) {
			have := topologies.NewFileError("a.yaml", src, test.line, test.column, "unknown field", test.hint).Error()
			if have != test.want {
				t.Errorf("have\n%s\nwant\n%s", have, test.want)
			}
		})
	}
}

func TestYAMLError(t *testing.T) {
	src := []byte("name: stall\nlasts: [12]\n")
	var into struct {
		Name  string `yaml:"name"`
		Lasts string `yaml:"lasts"`
	}
	err := topologies.YAMLError("incident.yaml", src, yaml.Unmarshal(src, &into))
	var at *topologies.FileError
	if !errors.As(err, &at) {
		t.Fatalf("have %v, want a FileError", err)
	}
	if at.Line != 2 || at.Column != 8 || at.Excerpt != "lasts: [12]" {
		t.Errorf("have %d:%d %q, want 2:8 of lasts: [12]", at.Line, at.Column, at.Excerpt)
	}
	if err := topologies.YAMLError("incident.yaml", src, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	if plain := errors.New("no place"); topologies.YAMLError("incident.yaml", src, plain) != plain {
		t.Error("an error without a place was changed")
	}
}

func TestNearest(t *testing.T) {
	known := []string{"latency", "jitter", "blackhole", "pause", "kill", "loss", "slicer"}
	for _, test := range []struct{ name, want string }{
		{"latency", "latency"},
		{"latencey", "latency"},
		{"laetncy", "latency"},
		{"Latency", "latency"},
		{"black-hole", "blackhole"},
		{"kil", "kill"},
		{"lss", "loss"},
		{"pasue", "pause"},
		{"surge", ""},
		{"", ""},
		{"x", ""},
		{strings.Repeat("latency", 20), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if have := topologies.Nearest(test.name, known); have != test.want {
				t.Errorf("have %q, want %q", have, test.want)
			}
		})
	}
	if have := topologies.Nearest("any", nil); have != "" {
		t.Errorf("nothing is known, yet %q is suggested", have)
	}
}
