package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"relapse/faults"
	"relapse/replays"
	"relapse/reports"
	"relapse/topologies"
)

// Set by the Makefile at link time, since a build outside a work tree has no
// version control to ask.
var version, commit string

func tool() replays.Tool { return replays.DescribeTool(version, commit) }

// build says which build this is.
func build() string {
	t := tool()
	what := strings.TrimSpace(t.Version + " " + t.Commit)
	if what == "" { // built without the Makefile, outside a work tree
		what = "of an unknown version"
	}
	return what + ", built with " + t.Go
}

// findIncident loads an incident; what is wrong with the name or the file is
// bad input.
func findIncident(ctx context.Context, name string) (*replays.Incident, error) {
	return loading(ctx, "the incident was loaded", func() (*replays.Incident, error) {
		inc, err := replays.Find(name)
		if err != nil {
			return nil, &exitError{exitBadInput, err}
		}
		return inc, nil
	})
}

// loading waits for something to be read, and no longer than until somebody
// interrupts. Reading may take seconds and asks no context, but it starts nothing
// that would have to be undone: it is left to end with the process, whose exit
// code is that of an interrupted run. what says what was done meanwhile.
func loading[T any](ctx context.Context, what string, load func() (T, error)) (T, error) {
	type result struct {
		loaded T
		err    error
	}
	loaded := make(chan result, 1) // taken by nobody after an interrupt
	go func() {
		l, err := load()
		loaded <- result{l, err}
	}()
	select {
	case r := <-loaded:
		if ctx.Err() == nil {
			return r.loaded, r.err
		}
	case <-ctx.Done():
	}
	var none T
	return none, rig(fmt.Errorf("interrupted while %s; nothing was started: %w", what, context.Cause(ctx)))
}

// rig gives an error of a play its exit code.
func rig(err error) error {
	if err == nil {
		return nil
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return err
	}
	var arm *replays.UnknownArmError
	var file *topologies.FileError
	var kind *faults.UnknownKindError
	badInput := func(is error) bool { return errors.Is(err, is) }
	if errors.As(err, &arm) || errors.As(err, &file) || errors.As(err, &kind) ||
		slices.ContainsFunc([]error{replays.ErrNoRecord, replays.ErrDamaged, replays.ErrOtherIncident, reports.ErrEmptyRun}, badInput) {
		return &exitError{exitBadInput, err}
	}
	return &exitError{exitRig, err}
}

// outcome gives a verdict its exit code.
func outcome(o replays.Outcome) error {
	switch o {
	case replays.Pass:
		return nil
	case replays.Fail:
		return &exitError{exitNot, nil}
	}
	return &exitError{exitUnknown, nil}
}

// runFolder makes a new folder for a run: the one asked for, or one named by
// time and subject below runs/.
func runFolder(asked, subject string, now time.Time) (string, error) {
	dir := asked
	if dir == "" {
		dir = filepath.Join("runs", now.Format("2006-01-02T15-04-05")+"-"+subject)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", &exitError{exitBadInput, fmt.Errorf("folder %s is not empty: a record is never written over another; name a new one with --out", dir)}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", &exitError{exitBadInput, fmt.Errorf("--out: %w", err)}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", &exitError{exitRig, fmt.Errorf("make the run's folder: %w", err)}
	}
	return dir, nil
}

// runID labels everything that a run starts.
func runID(now time.Time) string {
	return strings.ToLower(now.UTC().Format("20060102t150405")) + fmt.Sprintf("-%d", os.Getpid())
}

// playOptions are those that replay and verify share.
func playOptions(now time.Time) (replays.PlayOptions, error) {
	binary, err := os.Executable()
	if err != nil {
		return replays.PlayOptions{}, &exitError{exitRig, fmt.Errorf("find the tool's own binary, which runs inside the nodes too: %w", err)}
	}
	return replays.PlayOptions{Run: runID(now), Binary: binary, Tool: tool(), Command: append([]string{"relapse"}, os.Args[1:]...)}, nil
}
