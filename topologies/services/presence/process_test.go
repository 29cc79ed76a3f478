package presence_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"relapse/topologies/services"
)

// asService has the test program run the service with its arguments instead, so that
// a test can stop and kill an instance like any process.
const asService = "RELAPSE_TEST_PRESENCE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) == "" {
		logging.Disable() // servers are killed on purpose
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := services.Run(ctx, "presence", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is an instance in a process of its own.
type process struct {
	t       *testing.T
	command *exec.Cmd
	metrics string
}

func (r *rig) process(name string, args ...string) *process {
	r.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	p := &process{t: r.t, metrics: listener.Addr().String()}
	listener.Close()
	p.command = exec.Command(os.Args[0], slices.Concat([]string{
		"--name=" + name, "--redis=" + r.lists.Address, "--claims=" + r.claims.Address, "--metrics=" + p.metrics,
		"--lease=" + lease.String(), "--interval=" + interval.String(), "--tick=" + tick.String(), "--offline-after=" + offlineAfter.String(),
	}, args)...)
	p.command.Env = append(os.Environ(), asService+"=1")
	p.command.Stderr = os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.kill)
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill kills the process, if it runs: it gives nothing back.
func (p *process) kill() {
	p.command.Process.Kill()
	p.command.Wait()
}

// value reads a metric that has no label, 0 before the process answers.
func (p *process) value(name string, _ ...string) float64 {
	p.t.Helper()
	client := http.Client{Timeout: time.Second}
	response, err := client.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	defer io.Copy(io.Discard, response.Body)
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return value
		}
	}
	return 0
}
