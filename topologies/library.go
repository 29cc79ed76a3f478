package topologies

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// The patterns name no topology, so that a new folder needs no change here.
//
//go:embed */compose.yaml */overlays/*.yaml */conf/*
var library embed.FS

// Library is the files of the topologies that come with the binary, one folder
// each. Errors name them by their place in the source tree.
func Library() fs.FS { return NamedFS{library, "topologies"} }

// Names lists the library's topologies, sorted.
func Names() []string {
	files, err := fs.Glob(library, "*/"+ComposeFile)
	if err != nil {
		panic(err) // the pattern is well-formed
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = path.Dir(f)
	}
	return names
}

// Find says where the topology of that name is: the folder name in beside, which
// may be nil, or else in the library. The error wraps [fs.ErrNotExist] if it is
// in neither.
func Find(name string, beside fs.FS) (fsys fs.FS, dir string, err error) {
	if !fs.ValidPath(name) {
		return nil, "", fmt.Errorf("topology %q: want a folder's name without . and ..: %w", name, fs.ErrNotExist)
	}
	if beside != nil {
		_, err := fs.Stat(beside, path.Join(name, ComposeFile))
		if err == nil {
			return beside, name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("topology %q: %w", name, err)
		}
	}
	if _, err := fs.Stat(library, path.Join(name, ComposeFile)); err != nil {
		return nil, "", fmt.Errorf("topology %q: neither a folder beside the incident nor in the library: %s: %w", name, suggest(name, Names()), fs.ErrNotExist)
	}
	return Library(), name, nil
}
