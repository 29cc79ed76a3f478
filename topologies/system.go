package topologies

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"relapse/topologies/relay"
)

// Options say how a topology is started.
type Options struct {
	// Run is the id of the run. Every container and network carries it as a label.
	Run string
	// Binary is the path of a static Linux build of relapse: it is the image
	// [OwnImage], runs the relay and the watchdog. "" is the program that runs.
	Binary string
	// Proxied are the links that get a proxy; all others are direct.
	Proxied []Link
	// Driver is what runs the nodes; "" is [Docker].
	Driver Driver
	// Keep leaves everything running on Stop and when the tool dies. What is
	// kept is removed by [Clean] alone.
	Keep bool
	// Progress is told what takes long, one line a step. It may be nil. It can
	// be called from several goroutines at once.
	Progress func(step string)
}

// Deadlines of a start and of a stop.
const (
	startWithin = 60 * time.Second // all calls to the engine for one container
	stopWithin  = 30 * time.Second
)

// System is a topology that runs.
type System struct {
	topology  *Topology
	addressed *Addressed
	options   Options
	images    []ImageUse
	labels    map[string]string
	folder    string // of the run: files that nodes are given
	// cgroupParent holds the nodes that are on no host; "" is the engine's own.
	cgroupParent string
	engine       Engine
	unified      bool // hosts are of cgroup version 2
	hostMemory   map[string]*hostMemory
	driver       driver
	instances    map[string]*Instance
	relay        *relay.Client
	watchdog     *watchdog

	mu      sync.Mutex
	stopped bool
}

var runID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,80}$`)

func (o Options) complete(t *Topology) (Options, error) {
	if !runID.MatchString(o.Run) {
		return o, fmt.Errorf("run id %q: want letters, digits, '.', '_' and '-', as it becomes part of container names", o.Run)
	}
	if o.Binary == "" {
		binary, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("find the running program: %w", err)
		}
		o.Binary = binary
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Driver != "" && !slices.Contains(Drivers, o.Driver) {
		return o, fmt.Errorf("driver %q: want one of %q", o.Driver, Drivers)
	}
	if o.Keep && o.Driver == Process {
		return o, fmt.Errorf("%w: keeping nodes: they end with the tool; use the driver docker", ErrNotByProcesses)
	}
	for _, l := range o.Proxied {
		if !slices.Contains(t.Links, l) {
			return o, fmt.Errorf("topology %s: no link %s to put a proxy on", t.Name, l)
		}
	}
	return o, nil
}

// Start starts every node of a topology and returns once each of them answers.
// Nodes start side by side, each as soon as those that it depends on answer.
//
// If anything fails or the context ends, all that was started is removed before
// Start returns. The error wraps [ErrNoEngine] or [ErrNoImage] where that is the
// reason, [ErrNoNamespaces], [ErrNoProgram] or [ErrNotByProcesses] where nodes are
// processes, and is a [*NotReadyError] for a node that does not come up.
func Start(ctx context.Context, t *Topology, o Options) (_ *System, err error) {
	if o, err = o.complete(t); err != nil {
		return nil, err
	}
	d, err := newDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &System{
		topology: t, options: o, driver: d,
		labels:    map[string]string{LabelRun: o.Run, LabelOwner: ownProcess().String()},
		instances: map[string]*Instance{}, hostMemory: map[string]*hostMemory{},
	}
	if o.Driver == Process {
		s.labels[LabelDriver] = string(Process)
	}
	if o.Keep {
		s.labels[LabelKeep] = "true"
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abandon(ctx))
		}
	}()

	// What an earlier tool left when it died takes CPU and memory. It is no reason
	// to refuse a start: whether it disturbs shows in what is measured.
	if swept, err := s.driver.sweep(ctx, abandoned); err != nil {
		o.Progress("not all is gone that earlier runs left: " + inOneLine(err))
	} else if !swept.empty() {
		o.Progress("removed what earlier runs left: " + strings.Join(swept.Runs, ", "))
	}
	if s.images, err = s.driver.prepare(ctx, t, o); err != nil {
		return nil, err
	}
	if !o.Keep {
		if s.watchdog, err = startWatchdog(o.Binary, o.Run); err != nil {
			return nil, err
		}
	}
	if s.folder, err = createRunFolder(s.labels); err != nil {
		return nil, err
	}
	if err := s.createHosts(ctx); err != nil {
		return nil, err
	}
	if err := s.driver.connect(ctx, s); err != nil {
		return nil, err
	}
	if err := s.startNodes(ctx); err != nil {
		return nil, err
	}
	if err := s.checkHosts(); err != nil {
		return nil, err
	}
	return s, nil
}

// Topology is what was started.
func (s *System) Topology() *Topology { return s.topology }

// Addressed says where everything is.
func (s *System) Addressed() *Addressed { return s.addressed }

// Engine is what runs it, with its machine.
func (s *System) Engine() Engine { return s.engine }

// Images says what every image was, for the record.
func (s *System) Images() []ImageUse { return s.images }

// Relay is the relay's control; nil when no link has a proxy.
func (s *System) Relay() *relay.Client { return s.relay }

// Instance finds a node that was started.
func (s *System) Instance(node string) (*Instance, error) {
	i, ok := s.instances[node]
	if !ok {
		return nil, fmt.Errorf("topology %s: no node %q", s.topology.Name, node)
	}
	return i, nil
}

// Dial opens a connection the way the link's client does: to the link's own
// address where it has a proxy, else straight to the server.
func (s *System) Dial(ctx context.Context, l Link) (net.Conn, error) {
	address, err := s.target(l)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, l.Port).String())
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", l, err)
	}
	return conn, nil
}

// target is the address that the link's client has for its server.
func (s *System) target(l Link) (netip.Addr, error) {
	if !slices.Contains(s.topology.Links, l) {
		return netip.Addr{}, fmt.Errorf("topology %s: no link %s", s.topology.Name, l)
	}
	if address, proxied := s.addressed.Links[l]; proxied {
		return address, nil
	}
	address, known := s.addressed.Nodes[l.Server]
	if !known {
		return netip.Addr{}, fmt.Errorf("link %s: node %s has no address", l, l.Server)
	}
	return address, nil
}

// Players gives the control of a node that generates load.
func (s *System) Players(node string) (*Players, error) {
	i, err := s.Instance(node)
	if err != nil {
		return nil, err
	}
	if len(i.node.Operations) == 0 {
		return nil, fmt.Errorf("node %s: it generates no load: no label relapse.traffic", node)
	}
	return newPlayers(node, net.JoinHostPort(i.address.String(), strconv.Itoa(playersControl))), nil
}

// Front gives the control of a node that is a front.
func (s *System) Front(node string) (*Front, error) {
	i, err := s.Instance(node)
	if err != nil {
		return nil, err
	}
	if i.node.Front == 0 {
		return nil, fmt.Errorf("node %s: it is no front: no label relapse.front", node)
	}
	return newFront(node, i.endpoint(i.node.Front)), nil
}

// Fleet gives the control of a node that is a fleet.
func (s *System) Fleet(node string) (*Fleet, error) {
	i, err := s.Instance(node)
	if err != nil {
		return nil, err
	}
	if i.node.Fleet == 0 {
		return nil, fmt.Errorf("node %s: it is no fleet: no label relapse.fleet", node)
	}
	return newFleet(node, i.endpoint(i.node.Fleet)), nil
}

// Stop removes every container, the network and the hosts, and ends the
// watchdog. It does so even when ctx has ended, within a deadline of its own. It
// can be called again: after a failure it tries again, after a success it does
// nothing. With [Options.Keep] it leaves everything as it is.
func (s *System) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	if !s.options.Keep {
		if err := s.remove(ctx); err != nil {
			return fmt.Errorf("stop run %s: %w; `relapse clean` removes what is left", s.options.Run, err)
		}
	}
	s.stopped = true
	s.close()
	return nil
}

// abandon removes what a start that failed has left, also of a run to be kept:
// nobody gets hold of half a system.
func (s *System) abandon(ctx context.Context) error {
	err := s.remove(ctx)
	s.close()
	return err
}

func (s *System) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	swept, err := s.driver.sweep(ctx, ofRun(s.options.Run))
	if left := swept.StillThere(); left != "" {
		s.options.Progress(left)
	}
	return err
}

func (s *System) close() {
	if s.watchdog != nil {
		s.watchdog.end()
	}
	s.driver.close()
}
