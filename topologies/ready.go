package topologies

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// readyWithin bounds the time from a node's start to its first answer.
var readyWithin = 20 * time.Second

// NotReadyError says that a node was started and did not come to answer.
type NotReadyError struct {
	Node    string
	Waited  time.Duration
	For     string // what it was waited for, such as "port 8080 to accept"
	Ended   bool   // it ended by itself, with ExitCode
	Exit    int
	LogTail string // its last lines
	Err     error  // what the last try gave
}

func (e *NotReadyError) Error() string {
	var b strings.Builder
	if e.Ended {
		fmt.Fprintf(&b, "node %s: ended with exit code %d while it was waited for %s", e.Node, e.Exit, e.For)
	} else {
		fmt.Fprintf(&b, "node %s: not ready after %s: waited for %s: %v", e.Node, e.Waited.Round(100*time.Millisecond), e.For, e.Err)
	}
	if e.LogTail == "" {
		b.WriteString("; it logged nothing")
		return b.String()
	}
	b.WriteString("; its log ends:")
	for line := range strings.Lines(e.LogTail) {
		b.WriteString("\n  " + strings.TrimRight(line, "\r\n"))
	}
	return b.String()
}

func (e *NotReadyError) Unwrap() error { return e.Err }

// awaitReady polls from outside until every port of the node accepts and its
// probe is answered.
func (i *Instance) awaitReady(ctx context.Context) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()

	ports := slices.Clone(i.node.Expose)
	if i.node.Metrics != nil {
		ports = append(ports, i.node.Metrics.Port)
	}
	if len(i.node.Operations) > 0 {
		ports = append(ports, playersControl)
	}
	if i.node.Agent != 0 {
		ports = append(ports, i.node.Agent)
	}
	if i.node.Front != 0 {
		ports = append(ports, i.node.Front)
	}
	type condition struct {
		name  string
		holds func(context.Context) error
	}
	conditions := []condition{{"its process to run", func(ctx context.Context) error {
		state, err := i.State(ctx)
		if err == nil && !state.Running {
			err = ErrNotRunning
		}
		return err
	}}}
	if len(ports) > 0 {
		// A port that accepts is a process that runs: one question less.
		conditions = nil
	}
	slices.Sort(ports)
	for _, port := range slices.Compact(ports) {
		conditions = append(conditions, condition{fmt.Sprintf("port %d to accept", port),
			func(ctx context.Context) error { return probeAt(ctx, i.endpoint(port), Probe{Protocol: "tcp"}) }})
	}
	if i.node.Probe.Protocol != "" {
		conditions = append(conditions, condition{fmt.Sprintf("an answer to its %s probe", i.node.Probe.Protocol),
			func(ctx context.Context) error { return probeAt(ctx, i.endpoint(i.node.Probe.Port), i.node.Probe) }})
	}

	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	var last error
	looked := began
	for len(conditions) > 0 {
		const tryWithin = 300 * time.Millisecond
		whole := time.Since(began)+tryWithin < readyWithin
		try, cancel := context.WithTimeout(bounded, tryWithin)
		err := conditions[0].holds(try)
		cancel()
		if err == nil {
			conditions = conditions[1:]
			continue
		}
		// A try that the deadline cuts short gives its timeout for a reason.
		if whole || last == nil {
			last = err
		}
		// Nobody refuses at the address of a container that has ended: tries take
		// their full time there, so that it is by time that one looks. A node that
		// the engine starts again has not ended: it may come up yet.
		if time.Since(looked) > 200*time.Millisecond {
			looked = time.Now()
			if state, err := i.State(bounded); err == nil && !state.Running && !state.Restarting {
				return i.notReady(ctx, conditions[0].name, ErrNotRunning)
			}
		}
		select {
		case <-ticker.C:
		case <-bounded.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failure := i.notReady(ctx, conditions[0].name, fmt.Errorf("%w (%w)", last, bounded.Err()))
			failure.Waited = time.Since(began)
			return failure
		}
	}
	return nil
}

// notReady looks at a node that has not come up and says what is to be seen.
func (i *Instance) notReady(ctx context.Context, waitedFor string, err error) *NotReadyError {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	failure := &NotReadyError{Node: i.node.Name, For: waitedFor, Waited: readyWithin, Err: err}
	if state, err := i.State(ctx); err == nil && !state.Running && !state.Restarting {
		failure.Ended, failure.Exit = true, state.ExitCode
	}
	var log strings.Builder
	if err := i.unit.logs(ctx, 20, &log); err != nil {
		fmt.Fprintf(&log, "(its log cannot be read: %v)", err)
	}
	failure.LogTail = strings.TrimSpace(log.String())
	return failure
}
