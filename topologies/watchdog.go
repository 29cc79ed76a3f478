package topologies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// The watchdog is a second process of our own that outlives the tool, however
// it dies: it holds the reading end of a pipe whose writing end only the tool
// has, and the kernel closes that end with the tool.
type watchdog struct {
	command *exec.Cmd
	pipe    io.Closer
}

// startWatchdog starts it before anything else of the run exists.
func startWatchdog(binary, run string) (*watchdog, error) {
	command := exec.Command(binary, "watchdog", run)
	// A session of its own: Ctrl-C in the tool's terminal does not reach it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Dir = "/"
	pipe, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	return &watchdog{command: command, pipe: pipe}, nil
}

// end is for a run that is over: there is nothing left to sweep, so the
// watchdog is not asked to look.
func (w *watchdog) end() {
	_ = w.command.Process.Kill()
	_ = w.command.Wait()
	_ = w.pipe.Close()
}

// How long the watchdog looks. The engine finishes requests whose sender is
// gone, and on a busy machine it takes its time, so that a container can appear
// after a pass that found none.
const (
	watchdogQuiet  = 4 * time.Second // nothing appears for so long: done
	watchdogPass   = 500 * time.Millisecond
	watchdogWithin = time.Minute
)

// Watchdog waits until in ends, that is, until the tool that started it is
// gone, and then removes all of the run. It gives up after a minute, with what
// stood in the way; the next start sweeps the rest.
func Watchdog(run string, in io.Reader) error {
	// A reading error tells as much as the end does: nobody is there any more.
	_, _ = io.Copy(io.Discard, in)

	ctx, cancel := context.WithTimeout(context.Background(), watchdogWithin)
	defer cancel()
	ticker := time.NewTicker(watchdogPass)
	defer ticker.Stop()
	quiet, quietSince := watchdogQuiet, time.Now()
	if InNamespaces() {
		quiet = watchdogPass // nobody is left who would make anything
	}
	for {
		swept, err := Sweep(ctx, ofRun(run))
		if err != nil || !swept.empty() {
			quietSince = time.Now()
		}
		if time.Since(quietSince) >= quiet {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("watchdog of run %s: not clean within %s: %w", run, watchdogWithin, errors.Join(err, ctx.Err()))
		}
	}
}
