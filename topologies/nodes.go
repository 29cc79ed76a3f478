package topologies

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// builder makes a topology of what compose-go merged. Everything that depends on
// more than one field, or on more than one file, is checked here.
type builder struct {
	fsys    fs.FS
	dir     string
	docs    documents
	project *types.Project
}

func (b *builder) topology() (*Topology, error) {
	if len(b.project.Services) == 0 {
		return nil, b.docs.fail([]string{"services"}, "a topology needs at least one service", "write services: with one service a line below it, each with its image:")
	}
	t := &Topology{}
	var err error
	if t.Hosts, err = b.hosts(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(b.project.Services)) {
		n, err := b.node(b.project.Services[name], t.Hosts)
		if err != nil {
			return nil, err
		}
		t.Nodes = append(t.Nodes, n)
	}
	if err := b.checkOrder(t.Nodes); err != nil {
		return nil, err
	}
	if err := b.checkAgents(t); err != nil {
		return nil, err
	}
	if t.Links, err = b.links(t); err != nil {
		return nil, err
	}
	return t, b.checkUse(t)
}

func (b *builder) hosts() ([]Host, error) {
	declared, _ := b.project.Extensions["x-hosts"].(map[string]any)
	var hosts []Host
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		at := []string{"x-hosts", name}
		if !wellNamed.MatchString(name) {
			return nil, b.docs.fail(at, "this is not a name", wellNamedHint)
		}
		fields, _ := declared[name].(map[string]any)
		h := Host{Name: name}
		var bytes types.UnitBytes
		if m, ok := fields["memory"]; ok {
			if err := bytes.DecodeMapstructure(m); err != nil {
				return nil, b.docs.fail(append(at, "memory"), err.Error(), "for example 160m")
			}
			h.Memory = int64(bytes)
		}
		if c, ok := fields["cpus"]; ok {
			cpus, err := strconv.ParseFloat(fmt.Sprint(c), 64)
			if err != nil {
				return nil, b.docs.fail(append(at, "cpus"), "this is not a number of cores", "for example 0.5")
			}
			h.CPUs = cpus
		}
		h.OOMKillDisable, _ = fields["oom_kill_disable"].(bool)
		if h.OOMKillDisable && h.Memory == 0 {
			return nil, b.docs.fail(append(at, "oom_kill_disable"), "a host without a memory limit never runs out of it", "give it memory: 160m, or leave oom_kill_disable out")
		}
		if h.Memory == 0 && h.CPUs == 0 {
			return nil, b.docs.fail(at, "a host without limits is no host", "give it memory: 160m, cpus: 0.5 or both")
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// leakFolder is where an agent leaks, unless told otherwise.
const leakFolder = "/leak"

// checkAgents refuses a second agent of a host, since nobody could say which one a
// fault means, and one that may leak all of its host's memory, its own included: an
// agent that is killed gives the leak back.
func (b *builder) checkAgents(t *Topology) error {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Agent == 0 {
			continue
		}
		if first, _ := t.Agent(n.Host); first != n {
			return b.docs.failKey([]string{"services", n.Name, "labels", labelAgent},
				fmt.Sprintf("host %s has an agent already: %s", n.Host, first.Name), "keep one of the two")
		}
		for _, host := range t.Hosts {
			for _, tmpfs := range n.Tmpfs {
				folder, options, _ := strings.Cut(tmpfs, ":")
				bytes, given := tmpfsSize(options)
				if host.Name != n.Host || folder != leakFolder || !given || host.Memory == 0 || bytes < host.Memory {
					continue
				}
				return b.docs.failKey([]string{"services", n.Name, "tmpfs"},
					fmt.Sprintf("%q can hold as much as all memory of %s, %d MiB, and what leaks would take the agent with it", tmpfs, host.Name, host.Memory>>20),
					"write a size= that leaves some 10 MiB for the agent and enough for one more process, or give the host more memory:")
			}
		}
	}
	return nil
}

func (b *builder) node(s types.ServiceConfig, hosts []Host) (Node, error) {
	at := func(p ...string) []string { return append([]string{"services", s.Name}, p...) }
	none := Node{}
	if !wellNamed.MatchString(s.Name) {
		return none, b.docs.fail(at(), "this is not a node's name", wellNamedHint)
	}
	if s.Image == "" {
		others := slices.DeleteFunc(slices.Collect(maps.Keys(b.project.Services)), func(n string) bool { return n == s.Name })
		hint := "image: " + OwnImage + " stands for our own services"
		if near := Nearest(s.Name, others); near != "" && len(b.docs) > 1 {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return none, b.docs.fail(at(), "the service has no image", hint)
	}
	n := Node{
		Name: s.Name, Image: s.Image, Entrypoint: s.Entrypoint, Command: s.Command,
		User: s.User, WorkingDir: s.WorkingDir, Host: s.CgroupParent,
		Memory: int64(s.MemLimit), ReadOnly: s.ReadOnly,
		CapAdd: capabilities(s.CapAdd), Tmpfs: s.Tmpfs,
		OOMScoreAdj: int(s.OomScoreAdj),
	}
	if s.Restart != types.RestartPolicyNo {
		n.Restart = s.Restart
	}
	// compose-go keeps cores in 32 bits; their shortest text is what was written.
	var err error
	if n.CPUs, err = strconv.ParseFloat(strconv.FormatFloat(float64(s.CPUS), 'g', -1, 32), 64); err != nil {
		return none, b.docs.fail(at("cpus"), err.Error(), "for example 0.5")
	}
	if s.StopGracePeriod != nil {
		n.StopGrace = time.Duration(*s.StopGracePeriod)
	}
	if u := s.Ulimits["nofile"]; u != nil {
		n.NoFile = int64(u.Single)
	}
	for name, v := range s.Environment {
		if n.Environment == nil {
			n.Environment = map[string]string{}
		}
		if v == nil {
			return none, b.docs.fail(at("environment", name), "the variable has no value", "nothing is taken from the shell that runs relapse")
		}
		n.Environment[name] = *v
	}
	if n.Host != "" && !slices.ContainsFunc(hosts, func(h Host) bool { return h.Name == n.Host }) {
		known := make([]string, len(hosts))
		for i, h := range hosts {
			known[i] = h.Name
		}
		hint := "declare it at the top: x-hosts: {" + n.Host + ": {memory: 160m, cpus: 0.5}}"
		if near := Nearest(n.Host, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return none, b.docs.fail(at("cgroup_parent"), fmt.Sprintf("no host %q under x-hosts", n.Host), hint)
	}
	if n.Debian, err = b.debian(s, at); err != nil {
		return none, err
	}
	if n.Expose, err = b.expose(s, at); err != nil {
		return none, err
	}
	if n.Files, err = b.files(s, at); err != nil {
		return none, err
	}
	if n.DependsOn, err = b.dependsOn(s, at); err != nil {
		return none, err
	}
	if err := b.applyLabels(&n, s.Labels, at); err != nil {
		return none, err
	}
	return n, nil
}

// capabilities writes them as the engine does, without their prefix.
func capabilities(names []string) []string {
	var out []string
	for _, c := range names {
		out = append(out, strings.TrimPrefix(strings.ToUpper(c), "CAP_"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var debianPackage = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

func (b *builder) debian(s types.ServiceConfig, at func(...string) []string) ([]string, error) {
	listed, _ := s.Extensions["x-debian"].([]any)
	var out []string
	for _, p := range listed {
		name := fmt.Sprint(p)
		if !debianPackage.MatchString(name) {
			return nil, b.docs.fail(at("x-debian", name), fmt.Sprintf("%q is not the name of a Debian package", name), "for example nginx-light")
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

func (b *builder) expose(s types.ServiceConfig, at func(...string) []string) ([]uint16, error) {
	var out []uint16
	for _, e := range s.Expose {
		port, err := strconv.ParseUint(strings.TrimSuffix(e, "/tcp"), 10, 16)
		if err != nil || port == 0 {
			return nil, b.docs.fail(at("expose", e), fmt.Sprintf("%q is not a tcp port", e), "one port an item, from 1 to 65535, for example 8080")
		}
		if !slices.Contains(out, uint16(port)) {
			out = append(out, uint16(port))
		}
	}
	return out, nil
}

func (b *builder) files(s types.ServiceConfig, at func(...string) []string) ([]File, error) {
	var out []File
	for _, mount := range s.Configs {
		place := at("configs", mount.Source)
		config, ok := b.project.Configs[mount.Source]
		if !ok {
			return nil, b.docs.fail(place, fmt.Sprintf("no config %q at the top of the file", mount.Source),
				suggest(mount.Source, slices.Collect(maps.Keys(b.project.Configs))))
		}
		f := File{Path: cmp.Or(mount.Target, "/"+mount.Source), Content: []byte(config.Content), Mode: 0o444}
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return nil, b.docs.fail(place, fmt.Sprintf("target %q is not an absolute path", f.Path), "for example /etc/nginx/nginx.conf")
		}
		if mount.Mode != nil {
			f.Mode = int64(*mount.Mode)
		}
		if slices.ContainsFunc(out, func(o File) bool { return o.Path == f.Path }) {
			return nil, b.docs.fail(place, "a second config for "+f.Path, "give each its own target:")
		}
		file, src, firstLine := "", []byte(nil), 0
		if config.File != "" {
			var err error
			if !fs.ValidPath(path.Clean(config.File)) {
				return nil, b.docs.fail([]string{"configs", mount.Source, "file"}, fmt.Sprintf("%s leads out of the topology's folder", config.File),
					"a record keeps that folder and nothing else: put the file into it and name it by its path there, such as conf/nginx.conf")
			}
			file = path.Join(b.dir, config.File)
			if f.Content, err = fs.ReadFile(b.fsys, file); err != nil {
				return nil, b.docs.fail([]string{"configs", mount.Source, "file"}, fmt.Sprintf("cannot read %s: %v", file, reason(err)),
					"the path is relative to the folder of "+path.Join(b.dir, ComposeFile))
			}
			src, firstLine = f.Content, 1
		} else {
			file, src, firstLine = b.docs.contentOf(mount.Source)
		}
		if err := checkLinksUsed(file, src, firstLine, f.Content); err != nil {
			return nil, err
		}
		if err := checkTargets(s, f.Path, file, src, firstLine, f.Content); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, c File) int { return cmp.Compare(a.Path, c.Path) })
	return out, nil
}
