package topologies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
)

// Swept says what a sweep removed.
type Swept struct {
	Runs       []string `json:"runs"` // ids, sorted
	Containers int      `json:"containers"`
	Networks   int      `json:"networks"`
	Processes  int      `json:"processes"` // of nodes that are no containers
	Hosts      int      `json:"hosts"`     // parent cgroups
	// Kept are the names of networks that are left: the engine counts endpoints of
	// containers that are gone, and refuses to remove them until it is restarted.
	// Docker 20.10 can lose count where containers are started at the same time.
	Kept []string `json:"kept,omitempty"`
}

// and adds what another sweep removed.
func (s Swept) and(o Swept) Swept {
	s.Runs = append(s.Runs, o.Runs...)
	slices.Sort(s.Runs)
	s.Kept = append(s.Kept, o.Kept...)
	s.Containers += o.Containers
	s.Networks += o.Networks
	s.Processes += o.Processes
	s.Hosts += o.Hosts
	return s
}

func (s Swept) empty() bool { return len(s.Runs) == 0 }

// StillThere says what is left and who can remove it, in a sentence; nothing if
// nothing is.
func (s Swept) StillThere() string {
	if len(s.Kept) == 0 {
		return ""
	}
	return fmt.Sprintf("the engine keeps network %s, which has no container any more: restart the engine, then run `relapse clean`", strings.Join(s.Kept, ", "))
}

// Sweep removes the containers, networks, processes and parent cgroups of every run
// whose labels match. What carries no label of ours is never looked at twice. It goes
// on after an error and joins them all. Where no engine answers, that is an error if a
// run that matches had one.
func Sweep(ctx context.Context, match func(labels map[string]string) bool) (Swept, error) {
	swept, err := sweepProcesses(ctx, match)
	docker, dialErr := dialEngine(ctx)
	if errors.Is(dialErr, ErrNoEngine) && !onEngine(match) {
		return swept, err
	}
	if dialErr != nil {
		return swept, errors.Join(err, dialErr)
	}
	defer docker.Close()
	containers, dockerErr := sweep(ctx, docker, match)
	return swept.and(containers), errors.Join(err, dockerErr)
}

// onEngine says whether there is a folder of a run that matches and whose nodes were
// containers, or none that could tell.
func onEngine(match func(map[string]string) bool) bool {
	folders, err := runFolders()
	return err != nil || slices.ContainsFunc(folders, func(labels map[string]string) bool {
		return labels[LabelDriver] != string(Process) && match(labels)
	})
}

// Clean removes everything of ours, kept or not, except of runs whose tool is
// still alive and did not ask to keep them: those remove what is theirs.
func Clean(ctx context.Context) (Swept, error) {
	return Sweep(ctx, func(labels map[string]string) bool {
		return labels[LabelKeep] == "true" || ownerDead(labels)
	})
}

// abandoned matches runs whose tool died, unless they were to be kept.
func abandoned(labels map[string]string) bool {
	return labels[LabelKeep] != "true" && ownerDead(labels)
}

func ownerDead(labels map[string]string) bool {
	owner, readable := parseProcess(labels[LabelOwner])
	return !readable || !owner.alive()
}

func ofRun(run string) func(map[string]string) bool {
	return func(labels map[string]string) bool { return labels[LabelRun] == run }
}

func sweep(ctx context.Context, docker *client.Client, match func(map[string]string) bool) (Swept, error) {
	var swept Swept
	runs := map[string]bool{}
	labelled := make(client.Filters).Add("label", LabelRun)

	// Folders and networks are listed before containers are removed, so that all
	// three see the same set of runs.
	folders, folderErr := runFolders()
	for _, labels := range folders {
		if labels[LabelDriver] != string(Process) && match(labels) {
			runs[labels[LabelRun]] = true
		}
	}
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: labelled})
	if err != nil {
		return swept, errors.Join(folderErr, fmt.Errorf("list networks: %w", err))
	}
	containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled})
	if err != nil {
		return swept, errors.Join(folderErr, fmt.Errorf("list containers: %w", err))
	}

	for _, c := range containers.Items {
		if match(c.Labels) {
			runs[c.Labels[LabelRun]] = true
		}
	}
	for run := range runs {
		calmHosts(run)
	}
	failures := collector{errs: []error{folderErr}}
	held := map[string]bool{} // runs whose networks had containers
	var group errgroup.Group
	for _, c := range containers.Items {
		if !match(c.Labels) {
			continue
		}
		held[c.Labels[LabelRun]] = true
		swept.Containers++
		group.Go(func() error {
			_, err := docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			// Two sweeps may meet: "gone" and "being removed" are what was wanted.
			if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
				failures.add(fmt.Errorf("remove container of node %s: %w", c.Labels[LabelNode], err))
			}
			return nil
		})
	}
	_ = group.Wait()
	for _, n := range networks.Items {
		if !match(n.Labels) {
			continue
		}
		within := emptyNetworkWithin
		if held[n.Labels[LabelRun]] {
			within = networkWithin
		}
		switch err := removeNetwork(ctx, docker, n.ID, within); {
		case err == nil:
			runs[n.Labels[LabelRun]] = true
			swept.Networks++
		case unused(ctx, docker, n.ID):
			swept.Kept = append(swept.Kept, n.Name)
		default:
			runs[n.Labels[LabelRun]] = true
			failures.add(fmt.Errorf("remove network %s: %w", n.Name, err))
		}
	}
	for run := range runs {
		swept.Runs = append(swept.Runs, run)
		n, err := removeHosts(ctx, run)
		swept.Hosts += n
		failures.add(err)
		if failures.none() {
			// Last, since the folder is how a later sweep would know of the rest.
			failures.add(os.RemoveAll(runFolder(run)))
		}
	}
	slices.Sort(swept.Runs)
	slices.Sort(swept.Kept)
	return swept, failures.join()
}

// inOneLine tells an error that may join many: how many there are, and the first.
func inOneLine(err error) string {
	errs := unjoined(err)
	text := strings.ReplaceAll(errs[0].Error(), "\n", "; ")
	if len(errs) == 1 {
		return text
	}
	return fmt.Sprintf("%d errors, the first: %s", len(errs), text)
}

// unjoined gives the errors that were joined, also of joins in a join. What only
// wraps several, with a text of its own, is one error.
func unjoined(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, unjoined(e)...)
	}
	return out
}

// How long a network is waited for that still has endpoints: longer where we
// have just removed its containers. An engine can also keep an endpoint of none
// for good, and each start would wait for it.
const (
	networkWithin      = 5 * time.Second
	emptyNetworkWithin = 500 * time.Millisecond
)

// removeNetwork tries again for a while: a container that another sweep is about
// to remove still holds its network.
func removeNetwork(ctx context.Context, docker *client.Client, id string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := docker.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

// unused says whether a network that was not removed has no container any more.
// An engine that does not say so leaves it in use.
func unused(ctx context.Context, docker *client.Client, id string) bool {
	found, err := docker.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
	return err == nil && len(found.Network.Containers) == 0
}

// collector gathers errors of goroutines.
type collector struct {
	mu   sync.Mutex
	errs []error
}

func (c *collector) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *collector) none() bool { return c.join() == nil }

func (c *collector) join() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}
