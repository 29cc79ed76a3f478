package platform_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform"
	"relapse/topologies/services/platform/api"
	"relapse/topologies/services/presence/redistest"
)

// BenchmarkRedisPerHeartbeat gives what heartbeats of two million players cost Redis, in
// CPU time of its process and in memory. They are written as the session service writes
// them, all of a partition in one command and all partitions in one go: in each so many
// as come from all players, every 15 s, between two writes of one session service.
func BenchmarkRedisPerHeartbeat(b *testing.B) {
	const (
		online = 2_000_000
		every  = 15 * time.Second
		beats  = int(online * platform.DefaultBeatEvery / every)
		writes = 30
	)
	server := redistest.Start(b)
	client := server.Client()
	defer client.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	now := time.Now().UnixMilli()
	write := func(players func(n int) api.Player) {
		now++
		var partitions [api.Partitions][]goredis.Z
		for n := range beats {
			p := players(n)
			k := p.Partition()
			partitions[k] = append(partitions[k], goredis.Z{Score: float64(now), Member: p.String()})
		}
		pipeline := client.Pipeline()
		for k, members := range partitions {
			if len(members) > 0 {
				pipeline.ZAddArgs(b.Context(), api.SeenKey(k), goredis.ZAddArgs{GT: true, Members: members})
			}
		}
		if _, err := pipeline.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	empty := said(b, client, "memory", "used_memory")
	for first := 0; first < online; first += beats {
		write(func(n int) api.Player { return api.Player(min(first+n, online-1)) })
	}
	b.ReportMetric((said(b, client, "memory", "used_memory")-empty)/online, "redis-B/player")
	used := func() float64 {
		return said(b, client, "cpu", "used_cpu_user") + said(b, client, "cpu", "used_cpu_sys")
	}
	before := used()
	for range writes {
		write(func(int) api.Player { return api.Player(rng.IntN(online)) })
	}
	b.ReportMetric(0, "ns/op") // it is not b.N times that this is done
	b.ReportMetric(1e6*(used()-before)/float64(writes*beats), "redis-µs/heartbeat")
}

// said reads a number of what Redis says of itself.
func said(b *testing.B, client *goredis.Client, section, field string) float64 {
	b.Helper()
	info, err := client.Info(b.Context(), section).Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), field+":"); found {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			return v
		}
	}
	b.Fatalf("Redis does not say its %s: %s", field, info)
	return 0
}
