package topologies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrNoProgram says that a node's program is not on this machine, so that the node
// cannot run as a process.
var ErrNoProgram = errors.New("no program")

// ErrNotByProcesses says that a topology or a fault asks for what nodes that are
// processes cannot be given here.
var ErrNotByProcesses = errors.New("not to be had for processes")

// packaged says which packages hold a program, and how it tells its version.
type packaged struct{ debian, fedora, macos, version string }

var knownPrograms = map[string]packaged{
	"nginx":        {"nginx", "nginx", "nginx", "-v"},
	"memcached":    {"memcached", "memcached", "memcached", "-V"},
	"haproxy":      {"haproxy", "haproxy", "haproxy", "-v"},
	"redis-server": {"redis-server", "redis", "redis", "--version"},
	"postgres":     {"postgresql-15", "postgresql-server", "postgresql@15", "--version"},
	"initdb":       {"postgresql-15", "postgresql-server", "postgresql@15", "--version"},
}

// searched are the folders where programs are looked for: those of PATH, and those of
// servers, which the PATH of users may lack.
func searched() []string {
	var folders []string
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin") {
		if filepath.IsAbs(folder) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// findProgram gives the path of a program.
func findProgram(name string) (string, bool) {
	paths := []string{name}
	if !strings.Contains(name, "/") {
		paths = nil
		for _, folder := range searched() {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, true
		}
	}
	return "", false
}

// programsOf names the programs of a node that is not of our own image: the one that
// it starts as, and those that a shell's script names by their full path.
func programsOf(node *Node) ([]string, error) {
	if len(node.Entrypoint) == 0 {
		return nil, fmt.Errorf("%w: node %s: what it runs is said by its image %s alone; write it out as entrypoint:, or use --driver docker",
			ErrNotByProcesses, node.Name, node.Image)
	}
	programs := []string{node.Entrypoint[0]}
	if shell := path.Base(node.Entrypoint[0]); shell != "sh" && shell != "bash" && shell != "dash" {
		return programs, nil
	}
	for _, argument := range slices.Concat(node.Entrypoint[1:], node.Command) {
		for _, word := range strings.Fields(argument) {
			if folder := path.Base(path.Dir(word)); path.IsAbs(word) && (folder == "bin" || folder == "sbin") && !slices.Contains(programs, word) {
				programs = append(programs, word)
			}
		}
	}
	return programs, nil
}

// missing says what to install for a node.
func missing(node *Node, program string) error {
	return fmt.Errorf("%w: node %s: %s is not on this machine: %s, or use --driver docker", ErrNoProgram, node.Name, program, installed(program, node.Debian))
}

// installed says how a program is installed; debian are packages that are known to hold
// it, if any.
func installed(program string, debian []string) string {
	p, known := knownPrograms[path.Base(program)]
	if len(debian) > 0 {
		p.debian = debian[0]
	}
	switch {
	case known:
		return fmt.Sprintf("apt-get install %s (Debian), dnf install %s (Fedora) or brew install %s (macOS)", p.debian, p.fedora, p.macos)
	case p.debian != "":
		return fmt.Sprintf("apt-get install %s (Debian)", p.debian)
	}
	return "install it"
}

// FoundProgram is a program that topologies of the library need of a machine whose
// nodes are processes.
type FoundProgram struct {
	Name, Path string
	Missing    error  // where it is not there
	Install    string // how to get it then
}

// Programs looks for those programs; sorted by name.
func Programs() []FoundProgram {
	// As the topology valorant names it.
	const postgres = "/usr/lib/postgresql/15/bin/postgres"
	var all []FoundProgram
	for _, name := range []string{"haproxy", "memcached", "nginx", postgres, "redis-server"} {
		p := FoundProgram{Name: path.Base(name)}
		var found bool
		if p.Path, found = findProgram(name); !found {
			p.Install = installed(name, nil)
			p.Missing = fmt.Errorf("%w: %s is not on this machine: %s", ErrNoProgram, name, p.Install)
		}
		all = append(all, p)
	}
	return all
}

// programUses finds the programs of all nodes and says what they are, by the images
// that they stand for. The error names all that is missing.
func programUses(ctx context.Context, t *Topology, binary string) ([]ImageUse, error) {
	var errs []error
	found := map[string]map[string]string{} // path by name of a program, by image
	asked := map[string]bool{}
	for i := range t.Nodes {
		node := &t.Nodes[i]
		if node.Image == OwnImage {
			continue
		}
		programs, err := programsOf(node)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, program := range programs {
			path, ok := findProgram(program)
			switch {
			case ok && found[node.Image] == nil:
				found[node.Image] = map[string]string{program: path}
			case ok:
				found[node.Image][program] = path
			case !asked[program]:
				errs = append(errs, missing(node, program))
			}
			asked[program] = true
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	digest, err := binaryDigest(binary)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", OwnImage, err)
	}
	// Also where no node is of it: the relay is.
	uses := []ImageUse{{Ref: OwnImage, Digest: "sha256:" + digest, Source: ImageOwn, Versions: map[string]string{"relapse": "sha256:" + digest}}}
	for image, programs := range found {
		uses = append(uses, ImageUse{Ref: image, Source: ImageProgram, Versions: map[string]string{}})
		use := &uses[len(uses)-1]
		if err := describePrograms(ctx, use, programs); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(uses, func(a, b ImageUse) int { return strings.Compare(a.Ref, b.Ref) })
	return uses, nil
}

// describePrograms fills in the digest of the last program, by name, since a shell
// comes before what it starts, and all versions.
func describePrograms(ctx context.Context, use *ImageUse, programs map[string]string) error {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	versions := make([]string, len(names))
	var asking errgroup.Group
	for i, name := range names {
		asking.Go(func() error {
			versions[i] = programVersion(ctx, programs[name])
			return nil
		})
	}
	digest, err := binaryDigest(programs[names[len(names)-1]])
	_ = asking.Wait()
	if err != nil {
		return fmt.Errorf("image %s: %w", use.Ref, err)
	}
	use.Digest = "sha256:" + digest
	for i, name := range names {
		if versions[i] != "" {
			use.Versions[path.Base(name)] = versions[i]
		}
	}
	return nil
}

// programVersion is the first line that a program says of its version; "" where nobody
// knows how to ask. It is told for the reader, and nothing is decided by it.
func programVersion(ctx context.Context, program string) string {
	p, known := knownPrograms[filepath.Base(program)]
	if !known {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, p.version).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	const most = 100
	if len(line) > most {
		line = line[:most]
	}
	return line
}
