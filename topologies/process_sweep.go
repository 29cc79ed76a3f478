package topologies

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sweepProcesses removes the processes, parent cgroups and folders of runs whose nodes
// are processes. Networks have gone with the processes.
func sweepProcesses(ctx context.Context, match func(map[string]string) bool) (Swept, error) {
	folders, err := runFolders()
	errs := []error{err}
	var swept Swept
	for _, labels := range folders {
		if labels[LabelDriver] != string(Process) || !match(labels) {
			continue
		}
		run := labels[LabelRun]
		swept.Runs = append(swept.Runs, run)
		processes, endErr := endProcesses(ctx, run)
		hosts, hostsErr := removeHosts(ctx, run)
		swept.Processes += processes
		swept.Hosts += hosts
		err := errors.Join(endErr, hostsErr, removeBridge(run))
		if err == nil {
			// Last, since the folder is how a later sweep would know of the rest.
			err = os.RemoveAll(runFolder(run))
		}
		errs = append(errs, err)
	}
	slices.Sort(swept.Runs)
	return swept, errors.Join(errs...)
}

// endWithin bounds the wait for a process that was killed.
const endWithin = 5 * time.Second

// endProcesses kills what is left of a run's nodes and says of how many.
func endProcesses(ctx context.Context, run string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	notes, err := filepath.Glob(filepath.Join(runFolder(run), "*", processFile))
	if err != nil {
		return 0, fmt.Errorf("processes of run %s: %w", run, err)
	}
	var left []process
	for _, note := range notes {
		content, err := os.ReadFile(note)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another sweep meets this one
		}
		if err != nil {
			return 0, fmt.Errorf("processes of run %s: %w", run, err)
		}
		p, readable := parseProcess(string(content))
		if !readable || !p.alive() {
			continue
		}
		if err := unlessDone(unix.Kill(p.pid, unix.SIGKILL)); err != nil {
			return len(left), fmt.Errorf("process %d of run %s: %w", p.pid, run, err)
		}
		left = append(left, p)
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for slices.ContainsFunc(left, process.alive) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return len(left), fmt.Errorf("processes of run %s: not all have ended: %w", run, ctx.Err())
		}
	}
	return len(left), nil
}
