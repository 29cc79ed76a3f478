package topologies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// ErrNoEngine says that no container engine answers, so that nothing can be
// started. It is trouble of the rig and says nothing about any system.
var ErrNoEngine = errors.New("no container engine answers")

// engineAnswers bounds the first question to the engine: one that is there
// answers in milliseconds.
const engineAnswers = 1500 * time.Millisecond

// Engine describes the container engine and its machine, for the record. Where nodes
// are processes it describes the machine alone.
type Engine struct {
	Driver          Driver `json:"driver"`
	Version         string `json:"version"`
	API             string `json:"api"`
	OperatingSystem string `json:"operating_system"`
	Kernel          string `json:"kernel"`
	Architecture    string `json:"architecture"`
	StorageDriver   string `json:"storage_driver"`
	CgroupDriver    string `json:"cgroup_driver"`
	CgroupVersion   string `json:"cgroup_version"`
	Rootless        bool   `json:"rootless,omitempty"`
	CPUs            int    `json:"cpus"`
	MemoryBytes     int64  `json:"memory_bytes"`
	Folder          string `json:"folder,omitempty"` // where it keeps images and containers
}

// String is what a reader is told of it: "docker 20.10.24", "processes".
func (e Engine) String() string {
	if e.Driver == Process {
		return "processes"
	}
	return "docker " + e.Version
}

// unified says that the engine uses cgroup version 2.
func (e Engine) unified() bool { return e.CgroupVersion == "2" }

// Preflight asks the engine who it is. It starts nothing. The error wraps
// [ErrNoEngine] when none answers.
func Preflight(ctx context.Context) (Engine, error) {
	docker, err := dialEngine(ctx)
	if err != nil {
		return Engine{}, err
	}
	defer docker.Close()
	return describeEngine(ctx, docker)
}

func describeEngine(ctx context.Context, docker *client.Client) (Engine, error) {
	result, err := docker.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Engine{}, fmt.Errorf("ask the engine about itself: %w", err)
	}
	info := result.Info
	return Engine{
		Driver:          Docker,
		Version:         info.ServerVersion,
		API:             docker.ClientVersion(),
		OperatingSystem: info.OperatingSystem,
		Kernel:          info.KernelVersion,
		Architecture:    info.Architecture,
		StorageDriver:   info.Driver,
		CgroupDriver:    info.CgroupDriver,
		CgroupVersion:   info.CgroupVersion,
		Rootless:        slices.Contains(info.SecurityOptions, "name=rootless"),
		CPUs:            info.NCPU,
		MemoryBytes:     info.MemTotal,
		Folder:          info.DockerRootDir,
	}, nil
}

// dialEngine gives a client of an engine that has just answered.
func dialEngine(ctx context.Context) (*client.Client, error) {
	docker, err := client.New(client.FromEnv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; look at DOCKER_HOST", ErrNoEngine, err)
	}
	ping, cancel := context.WithTimeout(ctx, engineAnswers)
	defer cancel()
	if _, err := docker.Ping(ping, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		host := docker.DaemonHost()
		docker.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w at %s: %w; start it, or set DOCKER_HOST to one that runs on this machine",
			ErrNoEngine, host, err)
	}
	return docker, nil
}

// dockerDriver runs every node as a container.
type dockerDriver struct {
	docker   *client.Client
	provider *testcontainers.DockerProvider
	local    map[string]string // by a compose file's name of an image, the engine's
	program  *program          // nil where no node is of our own image
	// The run's network.
	network, networkID string
}

func newDockerDriver(ctx context.Context) (*dockerDriver, error) {
	docker, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	provider, err := containerProvider(docker)
	if err != nil {
		docker.Close()
		return nil, err
	}
	return &dockerDriver{docker: docker, provider: provider}, nil
}

func (d *dockerDriver) describe(ctx context.Context) (Engine, error) {
	return describeEngine(ctx, d.docker)
}

func (d *dockerDriver) prepare(ctx context.Context, t *Topology, o Options) (uses []ImageUse, err error) {
	uses, d.local, err = ensureImages(ctx, d.docker, t, o)
	return uses, err
}

func (d *dockerDriver) sweep(ctx context.Context, match func(map[string]string) bool) (Swept, error) {
	return sweep(ctx, d.docker, match)
}

func (d *dockerDriver) close() {
	d.program.unpin()
	_ = d.provider.Close()
	_ = d.docker.Close()
}

var configureOnce sync.Once

// containerProvider gives what creates and starts containers, on the engine that
// docker talks to: the library has ways of its own to find one.
//
// Its own clean-up container needs an image and the engine's socket inside a
// container; we have a watchdog instead, so it is switched off before the
// library reads its settings. Its chatter is silenced: what there is to say
// about a start goes to [Options.Progress].
func containerProvider(docker *client.Client) (*testcontainers.DockerProvider, error) {
	var err error
	configureOnce.Do(func() {
		tclog.SetDefault(tclog.NewNoopLogger())
		err = errors.Join(
			os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"),
			os.Setenv("TESTCONTAINERS_SESSION_ID", "relapse-"+ownProcess().token()),
		)
	})
	if err != nil {
		return nil, fmt.Errorf("configure the container library: %w", err)
	}
	provider, err := testcontainers.NewDockerProvider(
		testcontainers.Generic2DockerOptions(testcontainers.WithLogger(tclog.NewNoopLogger()))...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	_ = provider.Close() // the client that it found by itself
	provider.SetClient(docker)
	return provider, nil
}
