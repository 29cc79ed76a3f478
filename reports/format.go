package reports

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Format is one way to tell a report.
type Format struct {
	Name    string // what --format takes
	Summary string // one line for the command's help
	// Render gives the files of the report, the one to open first. It is pure:
	// same report, same bytes.
	Render func(Report) ([]File, error)
}

// File is one file of a rendered report; Name is relative to its folder.
type File struct {
	Name string
	Data []byte
}

// ErrUnknownFormat says that no format of that name is registered.
var ErrUnknownFormat = errors.New("unknown report format")

var formats = map[string]Format{}

// Register adds a format; each format's file calls it from init. A second
// format of one name is a mistake of the programmer and panics.
func Register(f Format) {
	if _, taken := formats[f.Name]; taken || f.Name == "" || f.Render == nil {
		panic(fmt.Sprintf("reports: format %q is incomplete or registered twice", f.Name))
	}
	formats[f.Name] = f
}

// Formats gives all formats, by name.
func Formats() []Format {
	all := make([]Format, 0, len(formats))
	for _, f := range formats {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Format) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Lookup gives the format of a name; else an error that wraps ErrUnknownFormat
// and lists what there is.
func Lookup(name string) (Format, error) {
	if f, ok := formats[name]; ok {
		return f, nil
	}
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("%w %q: want one of %s", ErrUnknownFormat, name, strings.Join(names, ", "))
}

// Write renders the report in the named formats into dir, which it makes if
// need be, and gives the path of each format's main file. It renders all of
// them before it writes the first.
func Write(dir string, r Report, names ...string) ([]string, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: none was asked for", ErrUnknownFormat)
	}
	var rendered [][]File
	for _, name := range names {
		f, err := Lookup(name)
		if err != nil {
			return nil, err
		}
		files, err := f.Render(r)
		if err != nil {
			return nil, fmt.Errorf("render %s report of %s: %w", name, r.Incident.Name, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("render %s report of %s: the format gave no file", name, r.Incident.Name)
		}
		rendered = append(rendered, files)
	}
	var paths []string
	for _, files := range rendered {
		for _, f := range files {
			if err := writeFile(dir, f); err != nil {
				return paths, err
			}
		}
		paths = append(paths, filepath.Join(dir, files[0].Name))
	}
	return paths, nil
}

// writeFile replaces a file in one step, so that a reader (or a crash) never
// meets half a report.
func writeFile(dir string, f File) error {
	if !filepath.IsLocal(f.Name) {
		return fmt.Errorf("write report: %q would leave the folder %s", f.Name, dir)
	}
	path := filepath.Join(dir, f.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".report-*")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	defer os.Remove(tmp.Name()) // fails harmlessly once it was renamed
	_, err = tmp.Write(f.Data)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return fmt.Errorf("write report %s: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
