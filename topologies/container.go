package topologies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// containerUnit is the container that runs a node.
type containerUnit struct {
	docker  *client.Client
	id      string
	created testcontainers.Container
	begun   atomic.Bool // it was started once
}

func (c *containerUnit) inspect(ctx context.Context) (State, error) {
	result, err := c.docker.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return State{}, err
	}
	s := result.Container.State
	if s == nil {
		return State{}, errors.New("the engine gave no state")
	}
	state := State{
		// The engine calls a container that it is about to start again running.
		Running:    s.Running && !s.Restarting,
		Paused:     s.Paused,
		Restarting: s.Restarting,
		Restarts:   result.Container.RestartCount,
		ExitCode:   s.ExitCode,
		OOMKilled:  s.OOMKilled,
		Pid:        s.Pid,
	}
	if state.StartedAt, err = time.Parse(time.RFC3339Nano, s.StartedAt); err != nil {
		return State{}, err
	}
	return state, nil
}

// start leaves the first start to the library that created the container.
func (c *containerUnit) start(ctx context.Context) error {
	if c.begun.CompareAndSwap(false, true) {
		return c.created.Start(ctx)
	}
	_, err := c.docker.ContainerStart(ctx, c.id, client.ContainerStartOptions{})
	return err
}

func (c *containerUnit) kill(ctx context.Context) error {
	_, err := c.docker.ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: "SIGKILL"})
	return err
}

func (c *containerUnit) awaitDead(ctx context.Context) error {
	wait := c.docker.ContainerWait(ctx, c.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *containerUnit) stop(ctx context.Context, grace time.Duration) error {
	seconds := int(grace.Round(time.Second) / time.Second)
	_, err := c.docker.ContainerStop(ctx, c.id, client.ContainerStopOptions{Timeout: &seconds})
	return err
}

func (c *containerUnit) pause(ctx context.Context) error {
	_, err := c.docker.ContainerPause(ctx, c.id, client.ContainerPauseOptions{})
	return err
}

func (c *containerUnit) resume(ctx context.Context) error {
	_, err := c.docker.ContainerUnpause(ctx, c.id, client.ContainerUnpauseOptions{})
	return err
}

func (c *containerUnit) setCPUs(ctx context.Context, cores float64) error {
	_, err := c.docker.ContainerUpdate(ctx, c.id, client.ContainerUpdateOptions{Resources: &container.Resources{
		CPUPeriod: cpuPeriod.Microseconds(), CPUQuota: cpuQuota(cores),
	}})
	return err
}

func (c *containerUnit) cpus(ctx context.Context) (float64, error) {
	result, err := c.docker.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return 0, err
	}
	limits := result.Container.HostConfig.Resources
	if limits.CPUQuota <= 0 || limits.CPUPeriod <= 0 {
		return 0, nil
	}
	return float64(limits.CPUQuota) / float64(limits.CPUPeriod), nil
}

func (c *containerUnit) setMemory(ctx context.Context, bytes int64) error {
	if bytes == 0 {
		// The engine has no word for taking a limit away.
		bytes = noMemoryLimit
	}
	_, err := c.docker.ContainerUpdate(ctx, c.id, client.ContainerUpdateOptions{Resources: &container.Resources{
		Memory: bytes, MemorySwap: bytes,
	}})
	return err
}

func (c *containerUnit) memory(ctx context.Context) (int64, error) {
	result, err := c.docker.ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return 0, err
	}
	bytes := result.Container.HostConfig.Resources.Memory
	if bytes >= noMemoryLimit {
		bytes = 0
	}
	return bytes, nil
}

func (c *containerUnit) cgroupName() string { return c.id }

func (c *containerUnit) cgroup(state State) *cgroupFiles {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(state.Pid), "cgroup"))
	if err != nil {
		return nil
	}
	// The number may be that of another process on this machine, if the engine
	// is on another one: the path must hold the container's id.
	if !bytes.Contains(content, []byte(c.id)) {
		return nil
	}
	mounts, err := cgroupMounts()
	if err != nil {
		return nil
	}
	return findCgroupFiles(string(content), mounts)
}

func (c *containerUnit) usage(ctx context.Context) (Usage, error) {
	result, err := c.docker.ContainerStats(ctx, c.id, client.ContainerStatsOptions{})
	if err != nil {
		return Usage{}, err
	}
	defer result.Body.Close()
	var stats container.StatsResponse
	if err := json.NewDecoder(result.Body).Decode(&stats); err != nil {
		return Usage{}, err
	}
	if stats.CPUStats.CPUUsage.TotalUsage == 0 {
		return Usage{}, ErrNotRunning
	}
	return Usage{
		CPUSeconds:       float64(stats.CPUStats.CPUUsage.TotalUsage) / 1e9,
		MemoryBytes:      stats.MemoryStats.Usage,
		ThrottledSeconds: float64(stats.CPUStats.ThrottlingData.ThrottledTime) / 1e9,
	}, nil
}

func (c *containerUnit) logs(ctx context.Context, lines int, w io.Writer) error {
	tail := "all"
	if lines != allLines {
		tail = strconv.Itoa(lines)
	}
	logs, err := c.docker.ContainerLogs(ctx, c.id, client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Timestamps: true, Tail: tail,
	})
	if err != nil {
		return err
	}
	defer logs.Close()
	_, err = stdcopy.StdCopy(w, w, logs)
	return err
}
