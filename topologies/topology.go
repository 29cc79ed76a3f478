// Package topologies holds what can be broken: compose files with their
// overlays, the services of our own that they name, and the engine that starts
// them, as containers or as processes of this machine.
//
// A [Topology] is data, loaded by [Load] from a compose file; a [System] is a
// topology that runs, started by [Start]. Nothing in this package knows of
// faults, incidents or verdicts.
package topologies

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strings"
	"time"
)

// OwnImage is the image name that stands for our own binary in a compose file.
const OwnImage = "relapse"

// Topology is a set of nodes, links and hosts: one compose file plus its
// overlays. It is complete and immutable once loaded.
type Topology struct {
	Name     string
	Overlays []string // names without folder and ending, in the order applied
	Nodes    []Node   // sorted by name
	Links    []Link   // sorted by client, server, port
	Hosts    []Host   // sorted by name
}

// Node is one compose service, which runs as one container or as processes of its own.
type Node struct {
	Name        string
	Image       string   // as the compose file names it; [OwnImage] for our own binary
	Debian      []string // x-debian: packages that hold the same program, for machines without a registry
	Entrypoint  []string
	Command     []string
	Environment map[string]string
	User        string
	WorkingDir  string
	Files       []File   // sorted by path
	DependsOn   []string // nodes that must be ready before this one starts
	Expose      []uint16 // ports that other nodes may be linked to
	Host        string   // cgroup_parent: the host it is placed on, "" for none
	Memory      int64    // limit in bytes, 0 for none
	CPUs        float64  // limit in cores, 0 for none
	CapAdd      []string // all others are dropped
	ReadOnly    bool     // read-only root file system
	Tmpfs       []string
	NoFile      int64 // open-files limit, 0 for the engine's own
	// Restart is the policy by which the engine starts the node again when it has
	// died: always, on-failure or unless-stopped; "" leaves it dead. Docker waits
	// 100 ms, and twice as long each time after a life of under 10 s. It gives up
	// when the start itself fails, as on a host without memory even for that.
	Restart string
	// OOMScoreAdj (oom_score_adj, 0 to 1000) is added to the node's memory, in
	// thousandths of the limit, where the kernel looks for a process to kill.
	OOMScoreAdj int
	StopGrace   time.Duration
	Metrics     *Metrics // nil for a node that is not measured from inside
	Operations  []string // label relapse.traffic: what a load generator can do, sorted
	Probe       Probe    // label relapse.probe: how to see from outside that the node answers
	Agent       uint16   // label relapse.agent: the port at which it is the agent of its host, 0 for none
	Front       uint16   // label relapse.front: the port at which it takes orders as a front, 0 for a node that is none
	Fleet       uint16   // label relapse.fleet: the port at which it takes orders as a fleet, 0 for a node that is none
}

// ReadFile gives the content of a file that is put into the node; the error wraps
// [fs.ErrNotExist] for one that is not.
func (n *Node) ReadFile(path string) ([]byte, error) {
	for _, f := range n.Files {
		if f.Path == path {
			return f.Content, nil
		}
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
}

// File is a file put into a node before it starts.
type File struct {
	Path    string
	Content []byte
	Mode    int64
}

// Metrics says how a node is measured (labels relapse.metrics*).
type Metrics struct {
	Kind string // nginx, memcached, haproxy, redis, postgres, prometheus
	Port uint16
	Path string // for kinds spoken over HTTP
	// GapsAreEvidence marks a node whose exporter shares what the incident
	// exhausts, so that missing samples are a sign of the failure and no
	// trouble of the rig (label relapse.metrics.gaps: evidence).
	GapsAreEvidence bool
}

// Probe is one exchange that shows from outside whether a node answers.
type Probe struct {
	Protocol string // memcached, http, redis, postgres, tcp; "" for a node that answers nobody
	Port     uint16 // where to ask; set whenever Protocol is
	Path     string // for http
}

// Link is one directed connection, from a client node to a port of a server node.
type Link struct {
	Client string
	Server string
	Port   uint16
}

// String gives the link's name as incident files write it.
func (l Link) String() string { return fmt.Sprintf("%s -> %s:%d", l.Client, l.Server, l.Port) }

// Match says whether the link is meant by a pattern of the form
// "client -> server" or "client -> server:port", each side a [path.Match]
// pattern. The second result is false if the pattern is malformed.
func (l Link) Match(pattern string) (matches, wellFormed bool) {
	client, server, ok := strings.Cut(pattern, "->")
	if !ok {
		return false, false
	}
	client, server = strings.TrimSpace(client), strings.TrimSpace(server)
	if client == "" || server == "" {
		return false, false
	}
	target := l.Server
	if strings.Contains(server, ":") {
		target = fmt.Sprintf("%s:%d", l.Server, l.Port)
	}
	a, err := path.Match(client, l.Client)
	if err != nil {
		return false, false
	}
	b, err := path.Match(server, target)
	if err != nil {
		return false, false
	}
	return a && b, true
}

// Host is a machine that several nodes share: one memory limit and one CPU
// limit, made as a parent cgroup.
type Host struct {
	Name   string
	Memory int64   // bytes
	CPUs   float64 // cores
	// OOMKillDisable has the host stand still when its memory is used up, instead
	// of the kernel killing one of its processes: what asks for memory waits until
	// there is some.
	OOMKillDisable bool
}

// Node finds a node by name.
func (t *Topology) Node(name string) (*Node, bool) {
	for i := range t.Nodes {
		if t.Nodes[i].Name == name {
			return &t.Nodes[i], true
		}
	}
	return nil, false
}

// MatchNodes gives the nodes whose name matches a [path.Match] pattern.
func (t *Topology) MatchNodes(pattern string) []string {
	var out []string
	for i := range t.Nodes {
		if ok, err := path.Match(pattern, t.Nodes[i].Name); err == nil && ok {
			out = append(out, t.Nodes[i].Name)
		}
	}
	return out
}

// MatchHosts gives the hosts whose name matches a [path.Match] pattern.
func (t *Topology) MatchHosts(pattern string) []Host {
	var out []Host
	for _, h := range t.Hosts {
		if ok, err := path.Match(pattern, h.Name); err == nil && ok {
			out = append(out, h)
		}
	}
	return out
}

// OnHost gives the names of the nodes on a host.
func (t *Topology) OnHost(host string) []string {
	var out []string
	for i := range t.Nodes {
		if t.Nodes[i].Host == host {
			out = append(out, t.Nodes[i].Name)
		}
	}
	return out
}

// Agent finds the agent of a host.
func (t *Topology) Agent(host string) (*Node, bool) {
	for i := range t.Nodes {
		if t.Nodes[i].Host == host && t.Nodes[i].Agent != 0 {
			return &t.Nodes[i], true
		}
	}
	return nil, false
}

// MatchLinks gives the links that a pattern means; see [Link.Match].
func (t *Topology) MatchLinks(pattern string) []Link {
	var out []Link
	for _, l := range t.Links {
		if ok, _ := l.Match(pattern); ok {
			out = append(out, l)
		}
	}
	return out
}

// Addressed is a topology with its place in a network: every node and every
// proxied link has a fixed address, so nothing depends on start order or on DNS.
type Addressed struct {
	Subnet netip.Prefix
	Relay  netip.Addr
	Nodes  map[string]netip.Addr
	Links  map[Link]netip.Addr // proxied links only; one address per client and server
}
