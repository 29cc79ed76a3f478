package topologies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// ComposeFile is the name of a topology's base file in its folder.
const ComposeFile = "compose.yaml"

// Load reads the topology in a folder of fsys: its compose.yaml, and on top of
// that overlays/<name>.yaml for each overlay, merged in the order given as
// Compose merges override files. An overlay named twice is applied once. Paths
// of configs are relative to the folder, in overlays too.
//
// Only fsys decides about the result: the environment and .env files are not
// read. A mistake in a file comes back as a [*FileError], an overlay that does
// not exist as an [*UnknownOverlayError]; both name files as [DisplayPath] does.
func Load(ctx context.Context, fsys fs.FS, dir string, overlays ...string) (*Topology, error) {
	t, err := load(ctx, fsys, dir, overlays)
	if err != nil {
		return nil, displayed(fsys, err)
	}
	return t, nil
}

func load(ctx context.Context, fsys fs.FS, dir string, overlays []string) (*Topology, error) {
	var applied []string
	for _, o := range overlays {
		if !slices.Contains(applied, o) {
			applied = append(applied, o)
		}
	}
	docs, err := readDocuments(fsys, dir, applied)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if err := d.checkFields(); err != nil {
			return nil, err
		}
	}
	name, err := topologyName(docs, dir)
	if err != nil {
		return nil, err
	}
	if err := docs.checkContents(); err != nil {
		return nil, err
	}
	project, err := mergeDocuments(ctx, name, docs)
	if err != nil {
		return nil, err
	}
	b := builder{fsys: fsys, dir: dir, docs: docs, project: project}
	t, err := b.topology()
	if err != nil {
		return nil, err
	}
	t.Name, t.Overlays = name, applied
	return t, nil
}

// UnknownOverlayError says that a topology has no overlay of that name.
type UnknownOverlayError struct {
	Dir     string // the topology's folder
	Overlay string
	Known   []string // sorted
}

func (e *UnknownOverlayError) Error() string {
	hint := "the topology has no overlays"
	if len(e.Known) > 0 {
		hint = suggest(e.Overlay, e.Known)
	}
	return fmt.Sprintf("%s: no overlay %q: %s", path.Join(e.Dir, "overlays"), e.Overlay, hint)
}

// Overlays lists the names of a topology's overlays, sorted.
func Overlays(fsys fs.FS, dir string) ([]string, error) {
	files, err := fs.Glob(fsys, path.Join(globEscape(dir), "overlays", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the overlays of %s: %w", dir, err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files, nil
}

// globEscape makes a folder's name stand for itself in a pattern.
func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func readDocuments(fsys fs.FS, dir string, overlays []string) (documents, error) {
	files := []string{path.Join(dir, ComposeFile)}
	for _, o := range overlays {
		files = append(files, path.Join(dir, "overlays", o+".yaml"))
	}
	docs := make(documents, 0, len(files))
	for i, file := range files {
		var src []byte
		err := fs.ErrNotExist // of an overlay whose name is none, but leads elsewhere
		if i == 0 || !strings.Contains(overlays[i-1], "/") {
			src, err = ReadText(fsys, file, file)
		}
		if i > 0 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)) {
			known, err := Overlays(fsys, dir)
			if err != nil {
				return nil, err
			}
			return nil, &UnknownOverlayError{Dir: dir, Overlay: overlays[i-1], Known: known}
		}
		if placed := (*FileError)(nil); errors.As(err, &placed) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("topology %s: %w", DisplayPath(fsys, dir), err)
		}
		d, err := parseDocument(file, src)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// wellNamed is what may name a node, a host or a topology: nodes' names are
// host names, and stand in link patterns and file names.
var wellNamed = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

const wellNamedHint = "up to 63 lower-case letters, digits and hyphens, as in a host name"

func topologyName(docs documents, dir string) (string, error) {
	for _, d := range slices.Backward(docs) {
		if v, ok := d.find([]string{"name"}); ok {
			name, _ := v.plain()
			if !wellNamed.MatchString(name) {
				return "", v.fail(fmt.Sprintf("%q is not a name", name), wellNamedHint)
			}
			return name, nil
		}
	}
	name := path.Base(dir)
	if !wellNamed.MatchString(name) {
		return "", docs.fail(nil, "the topology has no name, and its folder's does not do", "write name: at the top; "+wellNamedHint)
	}
	return name, nil
}

// checkContents refuses configs that end up with both of file and content, or
// with neither. It merges those two as Compose does, to say where.
func (ds documents) checkContents() error {
	type config struct{ file, content bool }
	merged := map[string]config{}
	for _, d := range ds {
		group, _ := d.find([]string{"configs"})
		fields, _ := group.fields()
		for _, f := range fields {
			c := merged[f.name]
			if f.tag == "!override" {
				c = config{}
			}
			parts, _ := f.fields()
			for _, p := range parts {
				set := p.tag != "!reset"
				switch p.name {
				case "file":
					c.file = set
				case "content":
					c.content = set
				}
			}
			merged[f.name] = c
			if c.file && c.content {
				return f.failKey("both file and content are set", "in an overlay, take the other one away: file: !reset null, or content: !reset null")
			}
			if !c.file && !c.content && f.tag != "!reset" {
				return f.failKey("neither file nor content is set", "file: a path relative to the folder of compose.yaml, or content: the text itself")
			}
		}
	}
	return nil
}

// mergeDocuments has compose-go read and merge the files. Its consistency check
// and normalisation are left out: the first gives no places, and the second
// makes every link a start dependency, so that two nodes linked to each other
// would be refused.
func mergeDocuments(ctx context.Context, name string, docs documents) (*types.Project, error) {
	details := types.ConfigDetails{WorkingDir: "/", Environment: types.Mapping{}}
	for _, d := range docs {
		details.ConfigFiles = append(details.ConfigFiles, types.ConfigFile{Filename: d.file, Content: d.src})
	}
	load := func(files []types.ConfigFile) (project *types.Project, err error) {
		// compose-go panics on some of what its own schema lets through, such
		// as a key without a value where it expects one.
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("compose-go cannot read the file: %v", r)
			}
		}()
		details.ConfigFiles = files
		return loader.LoadWithContext(ctx, details, func(o *loader.Options) {
			o.SetProjectName(name, true)
			o.ResolvePaths = false
			o.SkipInclude, o.SkipExtends = true, true
			o.SkipNormalization, o.SkipConsistencyCheck = true, true
			o.SkipResolveEnvironment, o.SkipResolveLabels = true, true
		})
	}
	files := details.ConfigFiles
	project, err := load(files)
	if err == nil {
		return project, nil
	}
	// The file to blame is the first one that makes the ones before it fail.
	for i := range files {
		if _, err := load(files[:i+1]); err != nil {
			return nil, docs[i].failCompose(err)
		}
	}
	return nil, docs[len(docs)-1].failCompose(err)
}

// composePath finds what looks like a place in compose-go's messages, which
// writes both services.a.x and services[a].x.
var composePath = regexp.MustCompile(`\b(services|configs|networks|x-hosts)((?:\.[\w-]+|\[[\w-]+\])+)`)

// composeProperty finds a name that compose-go's schema does not take.
var composeProperty = regexp.MustCompile(`\b(services|configs|networks|x-hosts)((?:\.[\w-]+)*) additional properties '([^']*)`)

// failCompose gives an error of compose-go the nearest place that its message
// leads to. The message serves for the place alone: nothing depends on it.
func (d *document) failCompose(err error) *FileError {
	message := strings.Join(strings.Fields(err.Error()), " ")
	if m := composeProperty.FindStringSubmatch(message); m != nil {
		steps := append(strings.FieldsFunc(m[1]+m[2], func(r rune) bool { return r == '.' }), m[3])
		if v, ok := d.find(steps); ok {
			return d.fail(v.key, message, composeHint)
		}
	}
	if m := composePath.FindStringSubmatch(message); m != nil {
		steps := append([]string{m[1]}, strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune(".[]", r) })...)
		for n := len(steps); n > 0; n-- {
			if v, ok := d.find(steps[:n]); ok {
				return d.fail(v.key, message, composeHint)
			}
		}
	}
	return NewFileError(d.file, d.src, 0, 0, message, composeHint)
}

const composeHint = "write it as the Compose specification has it; CONTRIBUTING.md describes what means something of its own"
