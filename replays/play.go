package replays

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"relapse/faults"
	"relapse/replays/samples"
	"relapse/topologies"
)

// PlayOptions say how a plan is played. Binary and Run must be given.
type PlayOptions struct {
	Run     string // id of the run: the label of everything it starts
	Binary  string // Linux build of the tool, for its services and the relay; static where nodes are containers
	Tool    Tool
	Command []string
	Driver  topologies.Driver    // what runs the nodes; "" is topologies.Docker
	Keep    bool                 // leave the nodes running
	Observe func(Event)          // told of every event as it happens; may be nil
	Live    func(*samples.Store) // given the store before the first phase, to be watched while it fills; may be nil
}

// stopWithin is the time that undoing and stopping may take once somebody
// interrupted a play.
const stopWithin = 15 * time.Second

// Play carries out a plan and leaves its record in a new folder. An error means
// trouble with the rig, never that the system failed: that is for the judge to
// say. The record is returned with an error too, as far as it came; it is
// readable, and judged as unknown.
func Play(ctx context.Context, inc *Incident, plan *Plan, dir string, o PlayOptions) (*Record, error) {
	started := time.Now()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the record's folder: %w", err)
	}
	// Before the plan, which makes a record of the folder: no record is without a
	// journal, however early the tool is killed.
	log, err := openJournal(filepath.Join(dir, eventsFile), started, o.Observe)
	if err != nil {
		return nil, err
	}
	secrets := plan.nodes.Secrets()
	log.mask = masker(secrets)
	written, err := writePlan(inc, plan, dir)
	if err != nil {
		_, closeErr := log.close()
		return nil, errors.Join(err, closeErr)
	}
	p := &play{inc: inc, plan: plan, dir: dir, o: o, log: log, store: samples.NewStore(), secrets: secrets}
	p.environment = Environment{Run: o.Run, Started: started, Tool: o.Tool, Command: o.Command, Machine: describeMachine(), Written: written}
	err = p.run(ctx)
	if err != nil {
		log.write(Event{Event: EventTrouble, Detail: err.Error()})
	}
	p.environment.Seconds = log.now().Sub(started).Seconds()
	events, closeErr := log.close()
	err = errors.Join(err, closeErr, WriteJSON(filepath.Join(dir, environmentFile), p.environment))
	return &Record{
		Dir: dir, Plan: plan, Events: events, Samples: p.store, Rules: inc.rules,
		Environment: p.environment, Targets: p.environment.Targets,
	}, err
}

// writePlan saves what is about to be played before anything starts, and gives the
// digests of what it wrote.
func writePlan(inc *Incident, plan *Plan, dir string) (map[string]string, error) {
	if err := os.MkdirAll(filepath.Join(dir, logsFolder), 0o755); err != nil {
		return nil, fmt.Errorf("make the record's folder: %w", err)
	}
	for name, content := range inc.files {
		path := filepath.Join(dir, incidentFolder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("save the incident: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, fmt.Errorf("save the incident: %w", err)
		}
	}
	if err := WriteJSON(filepath.Join(dir, planFile), plan); err != nil {
		return nil, fmt.Errorf("save the plan: %w", err)
	}
	written, err := writtenDigests(inc, dir)
	if err != nil {
		return nil, fmt.Errorf("save the plan: %w", err)
	}
	return written, nil
}

type play struct {
	inc         *Incident
	plan        *Plan
	dir         string
	o           PlayOptions
	log         *journal
	store       *samples.Store
	environment Environment
	sys         *topologies.System
	armed       map[string]faults.Armed
	secrets     []string // what nobody should read in the record
}

func (p *play) run(ctx context.Context) (err error) {
	if err := p.start(ctx); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = errors.Join(err, p.stop(ctx))
	}()
	if err := p.arm(ctx); err != nil {
		return err
	}
	held := make(chan struct{})
	conditions, err := p.holdConditions(ctx, held)
	// Conditions are undone after the last phase, on every path.
	defer conditions.Wait()
	defer close(held)
	if err != nil {
		return err
	}
	return p.phases(ctx)
}

func (p *play) start(ctx context.Context) error {
	progress := func(step string) { p.log.write(Event{Event: EventStarting, Detail: step}) }
	engine, err := p.o.Driver.Preflight(ctx)
	if err != nil {
		return err
	}
	p.environment.Machine.Driver, p.environment.Machine.Engine = string(engine.Driver), engine.String()
	p.environment.Machine.Cgroup = fmt.Sprintf("v%s, %s driver", engine.CgroupVersion, engine.CgroupDriver)
	o := topologies.Options{Run: p.o.Run, Binary: p.o.Binary, Driver: p.o.Driver, Proxied: p.plan.proxied(), Keep: p.o.Keep, Progress: progress}
	if p.sys, err = topologies.Start(ctx, p.plan.nodes, o); err != nil {
		return err
	}
	p.environment.Images = p.sys.Images()
	p.environment.Machine.CPUWeight = p.sys.CPUWeight()
	p.log.write(Event{Event: EventStarted})
	return nil
}

// ErrUnarmed says that a fault cannot bite, found before anything was broken.
var ErrUnarmed = errors.New("cannot bite here")

// arm finds every fault's targets before anything is broken, and asks that none
// of the faults is seen already: a fault seen before its time would be taken
// for its own effect.
func (p *play) arm(ctx context.Context) error {
	p.armed = map[string]faults.Armed{}
	for _, f := range p.plan.Faults {
		name := fnv.New64a()
		_, _ = io.WriteString(name, f.Name) // never fails
		// One generator a fault, so that another fault's draws cannot shift it.
		armed, err := p.plan.armable[f.Name].Arm(ctx, p.sys, rand.New(rand.NewPCG(p.plan.Seed, name.Sum64())))
		if err != nil {
			return fmt.Errorf("fault %s (%s) %w: %w", f.Name, f.Kind, ErrUnarmed, err)
		}
		p.armed[f.Name] = armed
		early, err := armed.InEffect(ctx)
		if err != nil {
			return fmt.Errorf("fault %s (%s) %w: it cannot be seen from outside: %w", f.Name, f.Kind, ErrUnarmed, err)
		}
		if early {
			p.fault(f.Name, stepFailed, "seen in effect before its time")
		}
	}
	return nil
}

func (p *play) fault(name string, step faults.Step, detail string) {
	p.log.write(Event{Event: EventFault, Fault: name, Step: string(step), Detail: detail})
}

// holdConditions injects the faults that stand for limits of the documented
// system and returns once all are in effect.
func (p *play) holdConditions(ctx context.Context, until <-chan struct{}) (*sync.WaitGroup, error) {
	var holding sync.WaitGroup
	var failed error
	for _, f := range p.plan.Faults {
		if !f.Condition {
			continue
		}
		seen, done := make(chan struct{}), make(chan struct{})
		holding.Go(func() {
			defer close(done)
			p.hold(ctx, f.Name, until, seen)
		})
		select {
		case <-seen:
		case <-done: // its events say why; the gates make the play unknown
		case <-ctx.Done():
			failed = errors.Join(failed, interrupted(ctx))
		}
	}
	return &holding, failed
}

// hold runs one fault's life and notes its steps. seen, where not nil, is
// closed once the fault is in effect.
func (p *play) hold(ctx context.Context, name string, until <-chan struct{}, seen chan<- struct{}) {
	result := faults.Hold(ctx, p.armed[name], until, faults.HoldOptions{Observe: func(step faults.Step) {
		p.fault(name, step, "")
		if step == faults.InEffect && seen != nil {
			close(seen)
		}
	}})
	if result.Err != nil {
		p.fault(name, stepFailed, result.Err.Error())
	}
}

// phases plays the timeline: traffic is set as each phase begins, faults are
// held over theirs.
func (p *play) phases(ctx context.Context) error {
	quiet, stopQuiet := context.WithCancel(ctx)
	defer stopQuiet()
	machine := new(noise)
	go machine.watch(quiet)
	measuring, err := p.measure(machine)
	if err != nil {
		return err
	}
	if p.o.Live != nil {
		p.o.Live(p.store)
	}
	var holding sync.WaitGroup
	defer holding.Wait()
	// An interrupt ends all holds; so does any error below.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	origin := p.log.now()
	moment := func(seconds float64) time.Time { return origin.Add(time.Duration(seconds * float64(time.Second))) }
	// A fault of traffic finds the traffic of the phase that it begins with.
	loaded := map[float64]chan struct{}{}
	for _, phase := range p.plan.Phases {
		loaded[phase.Start] = make(chan struct{})
	}
	for _, f := range p.plan.Faults {
		if f.Condition {
			continue
		}
		holding.Go(func() {
			select {
			case <-loaded[f.Start]:
			case <-ctx.Done():
				return
			}
			end, stop := context.WithDeadline(ctx, moment(f.End))
			defer stop()
			p.hold(ctx, f.Name, end.Done(), nil)
		})
	}
	end := moment(p.plan.Length())
	if err = p.timeline(ctx, moment, loaded); err != nil {
		cancel()
		end = p.log.now()
	}
	holding.Wait()
	p.environment.Targets = measuring.stop(origin, end)
	p.findDead(context.WithoutCancel(ctx))
	return err
}

// timeline closes a phase's channel of loaded, by its start, once the phase has
// its traffic.
func (p *play) timeline(ctx context.Context, moment func(float64) time.Time, loaded map[float64]chan struct{}) (err error) {
	defer func() {
		// Noted here: what is undone and stopped afterwards takes seconds that are
		// no phase's.
		if err != nil {
			p.log.write(Event{Event: EventPhasesCut})
		}
	}()
	for _, phase := range p.plan.Phases {
		if err := until(ctx, moment(phase.Start)); err != nil {
			return err
		}
		p.log.write(Event{Event: EventPhase, Phase: phase.Name})
		if err := p.setTraffic(ctx, phase.Traffic); err != nil {
			return fmt.Errorf("phase %s: %w", phase.Name, err)
		}
		close(loaded[phase.Start])
	}
	if err := until(ctx, moment(p.plan.Length())); err != nil {
		return err
	}
	p.log.write(Event{Event: EventPhasesEnd})
	return nil
}

func (p *play) setTraffic(ctx context.Context, traffic map[string]map[string]float64) error {
	for node, rates := range traffic {
		players, err := p.sys.Players(node)
		if err == nil {
			err = players.SetRates(ctx, rates)
		}
		if err != nil {
			return fmt.Errorf("set the traffic of %s: %w", node, err)
		}
	}
	return nil
}

// until waits for a moment of the timeline.
func until(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return interrupted(ctx)
	}
}

// findDead notes the nodes that do not run at the end and that nobody is about to
// start again, and those that the engine has started again.
func (p *play) findDead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var group errgroup.Group
	for _, n := range p.plan.nodes.Nodes {
		group.Go(func() error {
			instance, err := p.sys.Instance(n.Name)
			if err != nil {
				return err
			}
			state, err := instance.State(ctx)
			if e, ok := nodeEvent(n.Name, state, err); ok {
				p.log.write(e)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		p.log.write(Event{Event: EventTrouble, Detail: err.Error()})
	}
}

// nodeEvent is what there is to tell of a node at the end of a play; false for
// one that has lived all the time.
func nodeEvent(node string, state topologies.State, err error) (Event, bool) {
	e := Event{Event: EventNodeDead, Node: node}
	switch {
	case err != nil:
		e.Detail = err.Error()
	case !state.Running && !state.Restarting && state.OOMKilled:
		e.Detail = fmt.Sprintf("exit code %d: the kernel killed it for memory", state.ExitCode)
	case !state.Running && !state.Restarting:
		e.Detail = fmt.Sprintf("exit code %d", state.ExitCode)
	case state.Restarts > 0:
		e.Event, e.Detail = EventNodeRestarted, fmt.Sprintf("started again by the engine %d times", state.Restarts)
	default:
		return Event{}, false
	}
	return e, true
}

// stop takes the logs, then the nodes down, and saves the samples meanwhile.
func (p *play) stop(ctx context.Context) error {
	var saving errgroup.Group
	saving.Go(p.saveSamples)
	err := p.saveLogs(ctx)
	var stopped error
	if !p.o.Keep {
		stopped = p.sys.Stop(ctx)
	}
	err = errors.Join(err, stopped, saving.Wait())
	if e, ok := endEvent(p.o.Keep, stopped); ok {
		p.log.write(e)
	}
	return err
}

// endEvent is what has become of the nodes; false where stopping them failed,
// since nobody knows then.
func endEvent(keep bool, stopped error) (Event, bool) {
	switch {
	case keep:
		return Event{Event: EventKept}, true
	case stopped == nil:
		return Event{Event: EventStopped}, true
	}
	return Event{}, false
}

func (p *play) saveLogs(ctx context.Context) error {
	var group errgroup.Group
	for _, n := range p.plan.nodes.Nodes {
		group.Go(func() error {
			instance, err := p.sys.Instance(n.Name)
			if err != nil {
				return err
			}
			f, err := os.Create(filepath.Join(p.dir, logsFolder, n.Name+".log"))
			if err != nil {
				return fmt.Errorf("save the log of %s: %w", n.Name, err)
			}
			defer f.Close()
			masked := newMaskWriter(f, p.secrets)
			if err := errors.Join(instance.Logs(ctx, masked), masked.end()); err != nil {
				return fmt.Errorf("save the log of %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *play) saveSamples() error {
	path := filepath.Join(p.dir, samplesFile)
	// Under another name until it is whole: half a file cannot be judged.
	f, err := os.Create(path + ".part")
	if err != nil {
		return fmt.Errorf("save the samples: %w", err)
	}
	defer f.Close()
	// Speed before size: the play's own overhead is what somebody waits for.
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err == nil {
		err = p.store.WriteOpenMetrics(z)
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		// On a full disk what is still to be written of the record has its place.
		_ = os.Remove(f.Name())
		return fmt.Errorf("save the samples: %w", err)
	}
	return nil
}
