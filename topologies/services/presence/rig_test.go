package presence_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/polltest"
	"relapse/topologies/services/presence"
	"relapse/topologies/services/presence/redistest"
)

// Times that instances of the tests have.
const (
	lease        = 600 * time.Millisecond
	interval     = 50 * time.Millisecond
	tick         = 25 * time.Millisecond
	offlineAfter = 200 * time.Millisecond
)

// rig is two servers: one of the lists and one of the claims.
type rig struct {
	t                         *testing.T
	lists, claims             *redistest.Server
	listsClient, claimsClient *redis.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{t: t, lists: redistest.Start(t), claims: redistest.Start(t)}
	r.listsClient, r.claimsClient = r.lists.Client(), r.claims.Client()
	t.Cleanup(func() { r.listsClient.Close(); r.claimsClient.Close() })
	return r
}

// metered is what has metrics.
type metered interface {
	value(name string, labels ...string) float64
}

// instance runs in this process.
type instance struct {
	t        *testing.T
	registry *prometheus.Registry
	stop     func() // it gives its claims back
}

type change = func(*presence.Config)

// start starts an instance.
func (r *rig) start(name string, changes ...change) *instance {
	r.t.Helper()
	c := presence.Config{
		Name: name, Lists: presence.NewClient(r.lists.Address, lease/3), Claims: presence.NewClient(r.claims.Address, lease/3),
		Lease: lease, Interval: interval, Tick: tick, OfflineAfter: offlineAfter, Seed: 1,
	}
	for _, change := range changes {
		change(&c)
	}
	i := &instance{t: r.t, registry: prometheus.NewRegistry()}
	made, err := presence.New(c, i.registry)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	stopped := false
	i.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
		c.Lists.Close()
		c.Claims.Close()
	}
	r.t.Cleanup(i.stop)
	return i
}

// value reads a counter or gauge by its name and the value of its label, if it has
// one; absent is an error.
func (i *instance) value(name string, labels ...string) float64 {
	i.t.Helper()
	return gathered(i.t, i.registry, name, labels...)
}

func gathered(t *testing.T, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
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
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return 0
}

// owns gives how many partitions an instance may work on.
func owns(i metered) int { return int(i.value("relapse_presence_partitions")) }

// shares gives how many partitions each instance may work on, the fewest first.
func shares[M metered](instances ...M) (out []int) {
	for _, i := range instances {
		out = append(out, owns(i))
	}
	slices.Sort(out)
	return out
}

// even says whether instances have all partitions between them, each as many as any
// other, within one.
func even[M metered](instances ...M) bool {
	have, sum := shares(instances...), 0
	for _, n := range have {
		sum += n
	}
	return sum == api.Partitions && have[len(have)-1]-have[0] <= 1
}

// now is the time of the lists, in ms.
func (r *rig) now() int64 {
	r.t.Helper()
	now, err := r.listsClient.Time(context.Background()).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return now.UnixMilli()
}

// beat writes heartbeats of players at a time in ms, as sessions do.
func (r *rig) beat(at func(player int64) int64, players ...int64) {
	r.t.Helper()
	pipe := r.listsClient.Pipeline()
	for _, p := range players {
		pipe.ZAddArgs(context.Background(), api.SeenKey(api.Player(p).Partition()), redis.ZAddArgs{
			GT: true, Members: []redis.Z{{Score: float64(at(p)), Member: api.Player(p).String()}},
		})
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// at is the same time for every player.
func at(ms int64) func(int64) int64 { return func(int64) int64 { return ms } }

// players gives the players from one to before another.
func players(from, to int64) (out []int64) {
	for p := from; p < to; p++ {
		out = append(out, p)
	}
	return out
}

var eventually = polltest.Eventually
