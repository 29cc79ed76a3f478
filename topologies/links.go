package topologies

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// links makes one link of every pair of a link and a port that its server exposes.
func (b *builder) links(t *Topology) ([]Link, error) {
	var out []Link
	for _, n := range t.Nodes {
		for _, target := range b.project.Services[n.Name].Links {
			at := []string{"services", n.Name, "links", target}
			server, alias, aliased := strings.Cut(target, ":")
			if aliased && alias != server {
				return nil, b.docs.fail(at, "a link under another name is not supported", "links: ["+server+"]")
			}
			s, ok := t.Node(server)
			switch {
			case !ok:
				others := slices.DeleteFunc(b.project.ServiceNames(), func(o string) bool { return o == n.Name })
				return nil, b.docs.fail(at, fmt.Sprintf("no service %q to link to", server), suggest(server, others))
			case server == n.Name:
				return nil, b.docs.fail(at, "a node cannot be linked to itself", "it reaches itself at 127.0.0.1")
			case len(s.Expose) == 0:
				return nil, b.docs.fail(at, fmt.Sprintf("%s exposes no port to link to", server),
					"add expose: to services."+server+", for example expose: [8080]")
			}
			for _, port := range s.Expose {
				out = append(out, Link{Client: n.Name, Server: server, Port: port})
			}
		}
	}
	slices.SortFunc(out, compareLinks)
	return slices.Compact(out), nil
}

// compareLinks is the order of [Topology.Links].
func compareLinks(a, b Link) int {
	return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Port, b.Port))
}

func (b *builder) dependsOn(s types.ServiceConfig, at func(...string) []string) ([]string, error) {
	names := slices.Sorted(maps.Keys(s.DependsOn))
	for _, name := range names {
		if _, ok := b.project.Services[name]; !ok {
			return nil, b.docs.fail(at("depends_on", name), fmt.Sprintf("no service %q to wait for", name), suggest(name, b.project.ServiceNames()))
		}
	}
	return names, nil
}

// checkOrder refuses nodes that wait for each other in a circle.
func (b *builder) checkOrder(nodes []Node) error {
	needs := map[string][]string{}
	for _, n := range nodes {
		needs[n.Name] = n.DependsOn
	}
	done := map[string]bool{}
	var visit func(name string, trail []string) error
	visit = func(name string, trail []string) error {
		if i := slices.Index(trail, name); i >= 0 {
			last := trail[len(trail)-1]
			return b.docs.fail([]string{"services", last, "depends_on", name},
				"nodes wait for each other: "+strings.Join(append(trail[i:], name), " -> "), "take one of these out")
		}
		if done[name] {
			return nil
		}
		for _, next := range needs[name] {
			if err := visit(next, append(slices.Clone(trail), name)); err != nil {
				return err
			}
		}
		done[name] = true
		return nil
	}
	for _, n := range nodes {
		if err := visit(n.Name, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkUse refuses configs and hosts that no node uses: an overlay that
// misspells a name would else change nothing, and a fix that changes nothing
// would be judged. What a base file declares may be left unused by an overlay.
func (b *builder) checkUse(t *Topology) error {
	byService := map[string]string{"configs": "configs:", "x-hosts": "cgroup_parent:"}
	used := map[string]bool{}
	for _, s := range b.project.Services {
		for _, c := range s.Configs {
			used["configs."+c.Source] = true
		}
		used["x-hosts."+s.CgroupParent] = true
	}
	for i, d := range slices.Backward(b.docs) {
		if i == 0 && len(b.docs) > 1 {
			break
		}
		for _, group := range slices.Sorted(maps.Keys(byService)) {
			v, ok := d.find([]string{group})
			if !ok {
				continue
			}
			fields, _ := v.fields()
			var known []string
			for name := range used {
				if rest, ok := strings.CutPrefix(name, group+"."); ok && rest != "" {
					known = append(known, rest)
				}
			}
			for _, f := range fields {
				if !used[group+"."+f.name] && f.tag != "!reset" {
					hint := "name it in a service's " + byService[group] + ", or take it out"
					if near := Nearest(f.name, known); near != "" {
						hint = fmt.Sprintf("did you mean %q?", near)
					}
					return f.failKey("no node uses it", hint)
				}
			}
		}
	}
	return nil
}

// reason gives an error without the path that it repeats.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
