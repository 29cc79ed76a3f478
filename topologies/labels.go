package topologies

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// The labels that mean something.
const (
	labelMetrics     = "relapse.metrics"
	labelMetricsPort = "relapse.metrics.port"
	labelMetricsPath = "relapse.metrics.path"
	labelMetricsGaps = "relapse.metrics.gaps"
	labelTraffic     = "relapse.traffic"
	labelProbe       = "relapse.probe"
	labelAgent       = "relapse.agent"
	labelFront       = "relapse.front"
	labelFleet       = "relapse.fleet"
)

var labelNames = []string{labelMetrics, labelMetricsPort, labelMetricsPath, labelMetricsGaps, labelTraffic, labelProbe, labelAgent, labelFront, labelFleet}

// metricsKinds are the ways a node can be measured, each with the port and path
// that its program documents as usual. A kind without a path does not speak HTTP.
var metricsKinds = map[string]Metrics{
	"haproxy":    {Port: 8404, Path: "/metrics"},
	"memcached":  {Port: 11211},
	"nginx":      {Port: 80, Path: "/nginx_status"},
	"postgres":   {Port: 5432},
	"prometheus": {Port: 9090, Path: "/metrics"},
	"redis":      {Port: 6379},
}

var probeProtocols = []string{"http", "memcached", "none", "postgres", "redis", "tcp"}

var operationName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// applyLabels reads the relapse.* labels into the node, and works out what they
// leave open. Any other label is refused, since it would change nothing.
func (b *builder) applyLabels(n *Node, labels types.Labels, at func(...string) []string) error {
	bad := func(label, problem, hint string) error { return b.docs.fail(at("labels", label), problem, hint) }
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if slices.Contains(labelNames, label) {
			continue
		}
		if strings.HasPrefix(label, "relapse.") || Nearest(label, labelNames) != "" {
			return b.docs.failKey(at("labels", label), fmt.Sprintf("unknown label %q", label), suggest(label, labelNames))
		}
		return b.docs.failKey(at("labels", label), fmt.Sprintf("label %q is not supported: nothing reads it", label), "labels that mean something: "+strings.Join(labelNames, ", "))
	}
	if err := n.readMetrics(labels, bad); err != nil {
		return err
	}
	if list, ok := labels[labelTraffic]; ok {
		for op := range strings.SplitSeq(list, ",") {
			op = strings.TrimSpace(op)
			if !operationName.MatchString(op) {
				return bad(labelTraffic, fmt.Sprintf("%q is not the name of an operation", op), "a comma-separated list such as verify, login, logout")
			}
			if slices.Contains(n.Operations, op) {
				return bad(labelTraffic, fmt.Sprintf("operation %q is named twice", op), "")
			}
			n.Operations = append(n.Operations, op)
		}
		slices.Sort(n.Operations)
	}
	if text, ok := labels[labelAgent]; ok {
		port, ok := parsePort(text)
		switch {
		case !ok:
			return bad(labelAgent, fmt.Sprintf("%q is not a port", text), "the port at which the agent takes orders, 9092 unless told otherwise")
		case n.Host == "":
			return bad(labelAgent, "the node is on no host that it could be the agent of", "place it on one with cgroup_parent:")
		case n.Restart != "":
			// What it held ends with it, and one that runs reads as one that holds it.
			return b.docs.fail(at("restart"), "the agent of a host is not started again: its next life would hold nothing of what a fault told it",
				"leave restart: out, so that an agent that died stays dead and shows")
		}
		n.Agent = port
	}
	for _, takes := range []struct {
		label, who string
		orders     *uint16
	}{{labelFront, "front", &n.Front}, {labelFleet, "fleet", &n.Fleet}} {
		text, ok := labels[takes.label]
		if !ok {
			continue
		}
		if *takes.orders, ok = parsePort(text); !ok {
			return bad(takes.label, fmt.Sprintf("%q is not a port", text), fmt.Sprintf("the port at which the %s takes orders, 9091 unless told otherwise", takes.who))
		}
	}
	return n.readProbe(labels, bad)
}

func (n *Node) readMetrics(labels types.Labels, bad func(label, problem, hint string) error) error {
	kind, ok := labels[labelMetrics]
	if !ok {
		for _, label := range []string{labelMetricsPort, labelMetricsPath, labelMetricsGaps} {
			if _, ok := labels[label]; ok {
				return bad(label, "the node is not measured", "add the label "+labelMetrics)
			}
		}
		return nil
	}
	m, ok := metricsKinds[kind]
	if !ok {
		return bad(labelMetrics, fmt.Sprintf("unknown kind %q", kind), suggest(kind, slices.Collect(maps.Keys(metricsKinds))))
	}
	m.Kind = kind
	// These are measured at the port that they serve at, unless told otherwise.
	if len(n.Expose) == 1 && kind != "haproxy" && kind != "prometheus" {
		m.Port = n.Expose[0]
	}
	if text, ok := labels[labelMetricsPort]; ok {
		port, ok := parsePort(text)
		if !ok {
			return bad(labelMetricsPort, fmt.Sprintf("%q is not a port", text), "a number from 1 to 65535")
		}
		m.Port = port
	}
	if path, ok := labels[labelMetricsPath]; ok {
		if m.Path == "" {
			return bad(labelMetricsPath, kind+" is not measured over HTTP, so there is no path", "")
		}
		if !strings.HasPrefix(path, "/") {
			return bad(labelMetricsPath, fmt.Sprintf("%q is not a path", path), "for example /metrics")
		}
		m.Path = path
	}
	if gaps, ok := labels[labelMetricsGaps]; ok {
		if gaps != "evidence" {
			return bad(labelMetricsGaps, fmt.Sprintf("%q means nothing here", gaps), "evidence: missing samples of this node are a sign of the failure")
		}
		m.GapsAreEvidence = true
	}
	n.Metrics = &m
	return nil
}

// readProbe reads protocol[:port][/path]. Without the label a node is asked the
// way it is measured, else whether its first exposed port takes a connection.
func (n *Node) readProbe(labels types.Labels, bad func(label, problem, hint string) error) error {
	const form = "memcached, redis, postgres, tcp, http:/health or http:8080/health; none for a node that answers nobody"
	text, ok := labels[labelProbe]
	if !ok {
		switch {
		case n.Metrics != nil && n.Metrics.Path != "":
			n.Probe = Probe{Protocol: "http", Port: n.Metrics.Port, Path: n.Metrics.Path}
		case n.Metrics != nil:
			n.Probe = Probe{Protocol: n.Metrics.Kind, Port: n.Metrics.Port}
		case len(n.Expose) > 0:
			n.Probe = Probe{Protocol: "tcp", Port: n.Expose[0]}
		default:
			return bad(labelProbe, "nothing shows from outside whether the node answers",
				"give it expose:, a label "+labelMetrics+", or "+labelProbe+": none if it answers nobody")
		}
		return nil
	}
	protocol, rest, _ := strings.Cut(text, ":")
	if !slices.Contains(probeProtocols, protocol) {
		return bad(labelProbe, fmt.Sprintf("unknown protocol %q", protocol), form)
	}
	digits, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		digits, path = rest[:i], rest[i:]
	}
	if protocol == "none" {
		if rest != "" {
			return bad(labelProbe, "none takes neither port nor path", form)
		}
		return nil
	}
	p := Probe{Protocol: protocol, Path: path}
	switch {
	case path != "" && protocol != "http":
		return bad(labelProbe, protocol+" has no path", form)
	case path == "" && protocol == "http":
		p.Path = "/"
	}
	if digits != "" {
		if p.Port, ok = parsePort(digits); !ok {
			return bad(labelProbe, fmt.Sprintf("%q is not a port", digits), form)
		}
	} else if len(n.Expose) > 0 {
		p.Port = n.Expose[0]
	} else {
		return bad(labelProbe, "the node exposes no port to ask at", "add expose: or write the port, for example http:8080/health")
	}
	n.Probe = p
	return nil
}

func parsePort(s string) (uint16, bool) {
	port, err := strconv.ParseUint(s, 10, 16)
	return uint16(port), err == nil && port > 0
}
