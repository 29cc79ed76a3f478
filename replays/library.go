package replays

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"relapse/topologies"
)

//go:embed */incident.yaml */alerts.yaml
var library embed.FS

// LibraryNames gives the names of the library's incidents, sorted.
func LibraryNames() []string {
	paths, err := fs.Glob(library, "*/"+FileName)
	if err != nil { // the pattern is a constant
		panic(err)
	}
	out := make([]string, len(paths))
	for n, p := range paths {
		out[n] = path.Dir(p)
	}
	return out
}

// UnknownIncidentError is a name that is neither in the library nor a folder
// with an incident file.
type UnknownIncidentError struct {
	Name  string
	Names []string
}

func (e *UnknownIncidentError) Error() string {
	hint := "the library has: " + strings.Join(e.Names, ", ")
	if n := topologies.Nearest(e.Name, e.Names); n != "" {
		hint = fmt.Sprintf("did you mean %s?", n)
	}
	return fmt.Sprintf("there is no incident %q, in the library or as a folder with an %s: %s", e.Name, FileName, hint)
}

// Find loads an incident by its name in the library or from a folder of the
// user's own. A folder wins where the argument looks like a path.
func Find(name string) (*Incident, error) {
	if strings.ContainsRune(name, filepath.Separator) || name == "." {
		if _, err := os.Stat(filepath.Join(name, FileName)); err != nil {
			return nil, &UnknownIncidentError{name, LibraryNames()}
		}
		return Load(folderFS(name), ".")
	}
	if _, err := fs.Stat(library, path.Join(name, FileName)); err == nil {
		return Load(topologies.NamedFS{FS: library, Root: "replays"}, name)
	}
	// Lstat: a link that leads nowhere is told as such, not as an unknown incident.
	if _, err := os.Lstat(filepath.Join(name, FileName)); err == nil {
		return Load(folderFS(name), ".")
	}
	return nil, &UnknownIncidentError{name, LibraryNames()}
}

// folderFS is a folder on disk, of which errors name files by the path that leads
// there.
func folderFS(dir string) fs.FS { return topologies.NamedFS{FS: os.DirFS(dir), Root: dir} }

func displayPath(fsys fs.FS, file string) string { return topologies.DisplayPath(fsys, file) }
