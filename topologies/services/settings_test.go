package services_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"relapse/topologies/services"
)

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		after time.Duration
		route []string
		bad   bool
	}{
		{name: "nothing", files: []string{"{}"}},
		{name: "an empty file", files: []string{""}},
		{name: "a value", files: []string{"after: 2s"}, after: 2 * time.Second},
		{name: "several", files: []string{"route: [a, b]\nafter: 3s"}, after: 3 * time.Second, route: []string{"a", "b"}},
		{name: "the last one counts", files: []string{"after: 2s\nroute: a", "after: 1s\nroute: [b]"}, after: time.Second, route: []string{"a", "b"}},
		{name: "an unknown setting", files: []string{"befor: 2s"}, bad: true},
		{name: "a bad value", files: []string{"after: often"}, bad: true},
		{name: "itself", files: []string{"settings: x"}, bad: true},
		{name: "no map", files: []string{"[after]"}, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := flag.NewFlagSet("service", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			after := flags.Duration("after", 0, "")
			var route []string
			flags.Func("route", "", func(s string) error { route = append(route, s); return nil })
			services.Settings(flags)
			var args []string
			for _, content := range c.files {
				path := filepath.Join(t.TempDir(), "settings.yaml")
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--settings="+path)
			}
			if err := flags.Parse(args); (err != nil) != c.bad {
				t.Fatalf("have error %v, want one: %v", err, c.bad)
			}
			if !c.bad && (*after != c.after || !slices.Equal(route, c.route)) {
				t.Errorf("have %v %v, want %v %v", *after, route, c.after, c.route)
			}
		})
	}
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	services.Settings(flags)
	if flags.Parse([]string{"--settings=" + filepath.Join(t.TempDir(), "none")}) == nil {
		t.Error("a file that is not there: no error")
	}
}
