package topologies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processUnit is the processes that run a node: the one that became the node, and what
// that has started. They have a process namespace of their own, so that all of them end
// with the first.
type processUnit struct {
	driver *processDriver
	node   *Node
	folder string       // of the node, in the run's
	files  *cgroupFiles // nil where none can be made
	log    *processLog

	turn sync.Mutex // to start it, which the kernel may take its time for

	mu       sync.Mutex  // never held while the kernel has something to do
	life     *life       // the last one; nil before the first
	becoming *os.Process // nil but while one is started
	ended    bool        // somebody ended it: nothing starts it again
	again    *time.Timer // of a start by its restart policy, until that is made; else nil
	delay    time.Duration
	restarts int
	cores    float64 // limits, also of lives to come; 0 for none
	bytes    int64
}

// life is the time from a start to a death.
type life struct {
	command *exec.Cmd
	port    string // of the bridge
	started time.Time
	dead    chan struct{} // closed at its end
	exit    int           // set before that
}

func (l *life) over() bool {
	if l == nil {
		return true
	}
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (l *life) pid() int { return l.command.Process.Pid }

// Waits of restart policies, as Docker's.
const (
	firstDelay = 100 * time.Millisecond
	mostDelay  = time.Minute
	longLife   = 10 * time.Second // after which the first wait is taken again
)

// becomesWithin bounds the time from a process's start until it has become the node.
const becomesWithin = 10 * time.Second

func (u *processUnit) start(ctx context.Context) error {
	u.turn.Lock()
	defer u.turn.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	u.mu.Lock()
	if !u.life.over() || u.again != nil {
		u.mu.Unlock()
		return nil
	}
	u.ended, u.restarts, u.delay = false, 0, 0
	u.mu.Unlock()
	return u.begin()
}

// begin starts the process and returns once the node's program has taken its place. It
// is the caller's turn.
func (u *processUnit) begin() error {
	if u.driver.over() {
		return errRunOver
	}
	if err := u.makeCgroup(); err != nil {
		return err
	}
	ahead, said, err := pipes()
	if err != nil {
		return err
	}
	defer ahead.close()
	defer said.close()
	l := &life{command: u.newCommand(ahead.read, said.write), dead: make(chan struct{})}
	if err := u.driver.startProcess(l.command); err != nil {
		return noNamespaces(err)
	}
	_, _ = ahead.read.Close(), said.write.Close() // the process has its own
	u.mu.Lock()
	u.becoming = l.command.Process
	u.mu.Unlock()
	err = u.settle(l, ahead.write, said.read)
	u.mu.Lock()
	u.becoming = nil
	if err == nil {
		l.started = time.Now()
		u.life, u.again = l, nil
	}
	ended := u.ended
	u.mu.Unlock()
	if err != nil || ended {
		_ = l.command.Process.Kill()
	}
	if err != nil {
		_ = l.command.Wait()
		u.driver.unplug(l.port)
		u.log.flush()
		return err
	}
	go u.await(l)
	return nil
}

var errRunOver = errors.New("the run is over")

// settle gives the process its network and hears whether it has become the node. The
// process is noted first: who sweeps after the tool finds it, and before that it waits.
func (u *processUnit) settle(l *life, ahead, said *os.File) error {
	p := process{boot: bootID(), pid: l.pid(), start: startTime(l.pid())}
	err := os.WriteFile(filepath.Join(u.folder, processFile), []byte(p.String()), 0o600)
	if err == nil {
		l.port, err = u.driver.plug(l.pid(), u.node.Name)
	}
	if err == nil {
		_, err = ahead.Write([]byte{1})
	}
	within := becomesWithin
	if err != nil {
		// It may have given up before, and says why.
		within = 100 * time.Millisecond
	}
	if err := said.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	reason, readErr := io.ReadAll(said)
	switch {
	case len(reason) > 0:
		return &unbecomeError{string(reason)}
	case err != nil:
		return err
	case readErr != nil:
		return fmt.Errorf("the process has not become the node within %s: %w", becomesWithin, readErr)
	}
	return nil
}

// unbecomeError is what a process said that could not become its node.
type unbecomeError struct{ said string }

func (e *unbecomeError) Error() string { return "the process has not become the node: " + e.said }

// pipe is one between the tool and a process.
type pipe struct{ read, write *os.File }

func (p pipe) close() { _, _ = p.read.Close(), p.write.Close() } // again is no harm

func pipes() (ahead, said pipe, err error) {
	if ahead.read, ahead.write, err = os.Pipe(); err != nil {
		return ahead, said, err
	}
	if said.read, said.write, err = os.Pipe(); err != nil {
		ahead.close()
	}
	return ahead, said, err
}

func (u *processUnit) newCommand(ahead, said *os.File) *exec.Cmd {
	c := exec.Command(u.driver.binary, "node", filepath.Join(u.folder, specFile))
	c.Dir = "/"
	// It runs for milliseconds and needs no collector.
	c.Env = []string{"PATH=" + strings.Join(searched(), ":"), "GOGC=off"}
	c.Stdout, c.Stderr = u.log, u.log
	c.ExtraFiles = []*os.File{ahead, said}
	c.WaitDelay = time.Second
	c.SysProcAttr = u.driver.attributes(u.node)
	return c
}

// await sees a life to its end and what comes after.
func (u *processUnit) await(l *life) {
	_ = l.command.Wait() // the state tells
	l.exit = exitCode(l.command.ProcessState)
	// What has the port's place on the bridge would be asked for the address.
	u.driver.unplug(l.port)
	u.log.flush()
	u.removeCgroup()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.startsAgain(l.exit) {
		if time.Since(l.started) >= longLife {
			u.delay = 0
		}
		u.delay = min(max(firstDelay, 2*u.delay), mostDelay)
		u.again = time.AfterFunc(u.delay, u.beginAgain)
	}
	close(l.dead)
}

// startsAgain asks the restart policy. The lock is held.
func (u *processUnit) startsAgain(exit int) bool {
	switch {
	case u.ended || u.driver.over():
		return false
	case u.node.Restart == "on-failure":
		return exit != 0
	}
	return u.node.Restart != ""
}

func (u *processUnit) beginAgain() {
	u.turn.Lock()
	defer u.turn.Unlock()
	u.mu.Lock()
	ended := u.again == nil || u.ended
	if !ended {
		u.restarts++
	}
	u.mu.Unlock()
	if ended {
		return
	}
	if err := u.begin(); err != nil {
		// It is given up, as by an engine.
		u.mu.Lock()
		u.again = nil
		u.mu.Unlock()
		_, _ = fmt.Fprintf(u.log, "relapse: start it again: %v\n", err)
	}
}

// exitCode is that of a shell: 128 and the signal for one that a signal ended.
func exitCode(state *os.ProcessState) int {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// end has nothing started again, and gives the life that there is.
func (u *processUnit) end() *life {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	if u.again != nil {
		u.again.Stop()
		u.again = nil
	}
	if u.becoming != nil {
		_ = u.becoming.Kill()
	}
	return u.life
}

// endForGood ends it once the driver is over, also what was just being started.
func (u *processUnit) endForGood(ctx context.Context) error {
	u.end()
	u.turn.Lock() // none is taken after this one
	defer u.turn.Unlock()
	return errors.Join(u.kill(ctx), u.awaitDead(ctx))
}

func (u *processUnit) kill(context.Context) error {
	l := u.end()
	if l.over() {
		return nil
	}
	return unlessDone(l.command.Process.Kill())
}

// unlessDone takes a process that has ended for one that was ended.
func unlessDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func (u *processUnit) awaitDead(ctx context.Context) error {
	u.mu.Lock()
	l := u.life
	u.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.dead:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *processUnit) stop(ctx context.Context, grace time.Duration) error {
	l := u.end()
	if l.over() {
		return nil
	}
	if err := unlessDone(l.command.Process.Signal(syscall.SIGTERM)); err != nil {
		return err
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	select {
	case <-l.dead:
		return nil
	case <-over.C:
	case <-ctx.Done():
	}
	return errors.Join(unlessDone(l.command.Process.Kill()), u.awaitDead(ctx))
}

// pause stops every process of the node. The kernel stops one once it gets to run, and
// one that is not stopped yet may start another: so it asks until none is left.
func (u *processUnit) pause(ctx context.Context) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		moving := 0
		for _, pid := range u.members() {
			if strings.Contains("TtZX", runState(pid)) {
				continue
			}
			moving++
			if err := unlessDone(unix.Kill(pid, unix.SIGSTOP)); err != nil {
				return err
			}
		}
		if moving == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of its processes still run: %w", moving, ctx.Err())
		}
	}
}

func (u *processUnit) resume(context.Context) error {
	var errs []error
	for _, pid := range u.members() {
		errs = append(errs, unlessDone(unix.Kill(pid, unix.SIGCONT)))
	}
	return errors.Join(errs...)
}

func (u *processUnit) inspect(context.Context) (State, error) {
	u.mu.Lock()
	l, restarting, restarts := u.life, u.again != nil, u.restarts
	u.mu.Unlock()
	if l == nil {
		return State{}, nil
	}
	state := State{
		Restarts: restarts, StartedAt: l.started,
		// Whether it was so is for the exit code and the kernel's counter to tell.
		OOMKilled: u.files != nil && (u.node.Memory > 0 || u.node.Host != ""),
	}
	if l.over() {
		state.ExitCode, state.Restarting = l.exit, restarting
		return state, nil
	}
	state.Running, state.Pid = true, l.pid()
	state.Paused = runState(l.pid()) == "T"
	return state, nil
}
