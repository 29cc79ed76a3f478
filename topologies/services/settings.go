package services

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/goccy/go-yaml"
)

// Settings gives a service the flag --settings, which reads other flags of it
// from a file: a YAML map of a flag's name to its value, or to a list of values
// for a flag that may be given several times. A topology's overlay can then
// change one setting of several nodes without writing their commands anew. Flags
// and files count in the order in which they are given.
func Settings(flags *flag.FlagSet) { SettingsFrom(flags, os.ReadFile) }

// SettingsFrom is [Settings] with a reader of its own, for the files of a service that
// does not run.
func SettingsFrom(flags *flag.FlagSet, read func(path string) ([]byte, error)) {
	flags.Func("settings", "file of further settings, a YAML map of flags to values; may be given several times", func(path string) error {
		document, err := read(path)
		if err != nil {
			return err
		}
		if err := applySettings(flags, document); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

func applySettings(flags *flag.FlagSet, document []byte) error {
	var settings map[string]any
	if err := yaml.Unmarshal(document, &settings); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		values, several := settings[name].([]any)
		if !several {
			values = []any{settings[name]}
		}
		for _, value := range values {
			if flags.Lookup(name) == nil || name == "settings" {
				return fmt.Errorf("no setting %q", name)
			}
			if err := flags.Set(name, fmt.Sprint(value)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
