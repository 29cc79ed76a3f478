package replays

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"relapse/topologies"
)

// Configuration is all that a topology sets, by its place, in the words of the
// compose file: "node party mem_limit", "host host-1 cpus", "link party ->
// store:8080". What is left at its default has no entry, what has parts one for
// each, and a file its digest. How nodes are measured, probed and asked for load is
// none of it: that is the rehearsal and not what is deployed. Of a secret it says that
// there is one.
//
// As JSON it is canonical: sorted, so that equal configurations have equal digests.
type Configuration map[string]string

// digestPlace begins the places of images' digests, which are known only where
// there is an engine.
const digestPlace = "image digest "

// ConfigurationOf reads the configuration of a topology, with the digests of its
// images as far as they are known.
func ConfigurationOf(t *topologies.Topology, images []topologies.ImageUse) Configuration {
	c := Configuration{}
	for n := range t.Nodes {
		c.node(&t.Nodes[n])
	}
	for _, l := range t.Links {
		c["link "+l.String()] = "true"
	}
	for _, h := range t.Hosts {
		at := "host " + h.Name + " "
		set(c, at+"memory", h.Memory)
		set(c, at+"cpus", h.CPUs)
		set(c, at+"oom_kill_disable", h.OOMKillDisable)
	}
	for _, i := range images {
		digest := i.Digest
		// Our own image is the same for every build, which is mounted into it.
		if own := i.Versions["relapse"]; i.Ref == topologies.OwnImage && own != "" {
			digest = own
		}
		set(c, digestPlace+i.Ref, digest)
	}
	return c
}

// Configuration is that of the plan's topology. It is known of plans that an
// incident made, not of those read from a record.
func (p *Plan) Configuration(images []topologies.ImageUse) Configuration {
	return ConfigurationOf(p.nodes, images)
}

func (c Configuration) node(n *topologies.Node) {
	at := "node " + n.Name + " "
	c[at+"image"] = n.Image
	list(c, at+"x-debian", n.Debian)
	list(c, at+"entrypoint", n.Entrypoint)
	list(c, at+"command", n.Command)
	for key, value := range n.Environment {
		if topologies.Secret(key) {
			value = topologies.Masked
		}
		c[at+"environment "+key] = value
	}
	set(c, at+"user", n.User)
	set(c, at+"working_dir", n.WorkingDir)
	for _, f := range n.Files {
		c[at+"file "+f.Path] = fmt.Sprintf("sha256:%x, mode %o", sha256.Sum256(f.Content), f.Mode)
	}
	list(c, at+"depends_on", n.DependsOn)
	list(c, at+"expose", n.Expose)
	set(c, at+"cgroup_parent", n.Host)
	set(c, at+"mem_limit", n.Memory)
	set(c, at+"cpus", n.CPUs)
	list(c, at+"cap_add", n.CapAdd)
	set(c, at+"read_only", n.ReadOnly)
	list(c, at+"tmpfs", n.Tmpfs)
	set(c, at+"nofile", n.NoFile)
	set(c, at+"restart", n.Restart)
	set(c, at+"oom_score_adj", n.OOMScoreAdj)
	set(c, at+"stop_grace_period", n.StopGrace)
}

// set notes a value that is not the default.
func set[T comparable](c Configuration, place string, value T) {
	var none T
	if value != none {
		c[place] = fmt.Sprint(value)
	}
}

// list notes a list with its quotes: where one entry ends is a part of it.
func list[T any](c Configuration, place string, values []T) {
	if len(values) == 0 {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(values); err != nil {
		panic(err) // texts and numbers can be written
	}
	c[place] = strings.TrimSpace(b.String())
}

// Digest names the configuration: equal ones have equal digests.
func (c Configuration) Digest() string {
	b, err := json.Marshal(map[string]string(c))
	if err != nil {
		panic(err) // texts can be written
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(b))
}

// Difference is one setting that two configurations do not share.
type Difference struct {
	Setting  string  `json:"setting"`
	Tested   *string `json:"tested"`   // null where it was left at its default
	Deployed *string `json:"deployed"` // null where it is
}

func (d Difference) String() string {
	return fmt.Sprintf("%s: tested %s, deployed %s", d.Setting, settingText(d.Tested), settingText(d.Deployed))
}

func settingText(value *string) string {
	switch {
	case value == nil:
		return "nothing"
	case *value == "":
		return `""`
	}
	return *value
}

// Drift is what a deployed configuration sets otherwise than this one, by place.
// Digests of images are compared where both sides know them.
func (c Configuration) Drift(deployed Configuration) []Difference {
	out := []Difference{}
	places := Configuration{}
	maps.Copy(places, c)
	maps.Copy(places, deployed)
	for _, place := range slices.Sorted(maps.Keys(places)) {
		a, inTested := c[place]
		b, inDeployed := deployed[place]
		switch {
		case inTested && inDeployed && a == b:
		case strings.HasPrefix(place, digestPlace) && !(inTested && inDeployed):
		default:
			d := Difference{Setting: place}
			if inTested {
				d.Tested = &a
			}
			if inDeployed {
				d.Deployed = &b
			}
			out = append(out, d)
		}
	}
	return out
}

// UnknownImages are those of which this side knows the digest and the other one
// does not, although it would be made of them too.
func (c Configuration) UnknownImages(deployed Configuration) []string {
	out := []string{}
	for _, place := range slices.Sorted(maps.Keys(c)) {
		ref, ok := strings.CutPrefix(place, digestPlace)
		if _, known := deployed[place]; ok && !known && deployed.uses(ref) {
			out = append(out, ref)
		}
	}
	return out
}

// uses says whether a node is made of an image.
func (c Configuration) uses(ref string) bool {
	for place, value := range c {
		if strings.HasPrefix(place, "node ") && strings.HasSuffix(place, " image") && value == ref {
			return true
		}
	}
	return false
}
