package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/audit"
	"relapse/topologies/services/presence/history"
	"relapse/topologies/services/presence/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // servers are killed on purpose
	os.Exit(m.Run())
}

// settings are as short as a busy machine allows, so that what takes too long does so
// soon.
func settings() history.Config {
	return history.Config{
		Lease: time.Second, Interval: 20 * time.Millisecond, Tick: 10 * time.Millisecond,
		OfflineAfter: 50 * time.Millisecond, Slack: 20 * time.Millisecond,
	}
}

// lines collects what is written line by line.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is an audit of what the test writes.
type rig struct {
	t        *testing.T
	server   *redistest.Server
	client   *redis.Client
	registry *prometheus.Registry
	printed  *lines
	id       int // of the next entry of a log
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{t: t, server: redistest.Start(t), registry: prometheus.NewRegistry(), printed: &lines{}}
	r.client = r.server.Client()
	t.Cleanup(func() { r.client.Close() })
	return r
}

// run starts the audit.
func (r *rig) run() {
	r.t.Helper()
	client := presence.NewClient(r.server.Address, time.Second)
	a, err := audit.New(audit.Config{
		Lists: client, Claims: client, Config: settings(), Every: 10 * time.Millisecond, Violations: r.printed,
	}, r.registry)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("audit: %v", err)
		}
		client.Close()
	})
}

func (r *rig) do(args ...any) {
	r.t.Helper()
	if err := r.client.Do(context.Background(), args...).Err(); err != nil {
		r.t.Fatalf("%v: %v", args, err)
	}
}

func (r *rig) now() int64 {
	r.t.Helper()
	now, err := r.client.Time(context.Background()).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return now.UnixMilli()
}

// Player 7 and its partition are those of every test.
const player = 7

var partition = api.Player(player).Partition()

func (r *rig) heard(at int64) { r.t.Helper(); r.do("ZADD", api.SeenKey(partition), at, player) }

// marked writes a mark of the player, who was heard of at a time.
func (r *rig) marked(heard, at int64, owner string, number int) {
	r.t.Helper()
	tick := settings().Tick.Milliseconds()
	due := (heard + settings().OfflineAfter.Milliseconds() + tick - 1) / tick
	r.do("XADD", presence.ActionsKey, "*", "player", player, "partition", partition, "due", due, "by", owner, "number", number, "seen", heard, "at", at)
}

// claimed writes a claim, which lasts until a time.
func (r *rig) claimed(k, number int, owner, from string, till int64) {
	r.t.Helper()
	r.do("XADD", presence.ClaimedKey, "*", "partition", k, "number", number, "owner", owner, "from", from, "how", "free", "at", r.now())
	r.do("HSET", presence.ClaimsKey, k, fmt.Sprintf("%d %d %s", number, till, owner))
	r.do("ZADD", presence.InstancesKey, till, owner)
}

func (r *rig) value(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetValue())
			}
			if slices.Equal(have, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("no metric %s%v", name, labels)
	return 0
}

// read waits until the history is read twice more.
func (r *rig) read() {
	r.t.Helper()
	from := r.value("relapse_presence_audits_total")
	eventually(r.t, "the history is read twice more", func() bool { return r.value("relapse_presence_audits_total") >= from+2 })
}

var eventually = polltest.Eventually
