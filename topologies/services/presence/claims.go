package presence

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
)

// leaveWithin bounds giving back what was claimed; what is not given back is free
// when the lease is over.
const leaveWithin = 500 * time.Millisecond

var (
	//go:embed scripts/round.lua
	roundSource string
	//go:embed scripts/leave.lua
	leaveSource string

	roundScript = redis.NewScript(roundSource)
	leaveScript = redis.NewScript(leaveSource)
)

// standing is what came of a round.
type standing struct {
	instances          int
	free, stolen, anew int           // partitions claimed, by how
	moved              int           // of those, what another one had
	own                map[int]int64 // the number of the claim of each partition
}

// claimRound renews and claims. New claims have numbers above the one given, and so
// do from now on those of the partitions that are to be numbered anew.
func (i *Instance) claimRound(ctx context.Context, above int64, anew []int) (standing, error) {
	greedy := 0
	if i.config.Greedy {
		greedy = 1
	}
	args := []any{
		i.self, i.config.Lease.Milliseconds(), i.config.Interval.Milliseconds(), above,
		i.config.Steals, api.Partitions, greedy,
	}
	for _, k := range anew {
		args = append(args, k)
	}
	keys := []string{ClaimsKey, InstancesKey, JoinedKey, NumberKey, ClaimedKey}
	reply, err := roundScript.Run(ctx, i.config.Claims, keys, args...).Int64Slice()
	if err != nil {
		return standing{}, fmt.Errorf("renew and claim: %w", err)
	}
	const head = 5
	if len(reply) < head || len(reply)%2 != head%2 {
		return standing{}, fmt.Errorf("renew and claim: the script gave %d numbers: want %d, and two for each partition", len(reply), head)
	}
	s := standing{
		instances: int(reply[0]), free: int(reply[1]), stolen: int(reply[2]), anew: int(reply[3]), moved: int(reply[4]),
		own: map[int]int64{},
	}
	for pair := reply[head:]; len(pair) > 0; pair = pair[2:] {
		s.own[int(pair[0])] = pair[1]
	}
	return s, nil
}

// leave gives back what the instance has claimed, so that nobody has to wait for
// its lease to end.
func (i *Instance) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	keys := []string{ClaimsKey, InstancesKey, JoinedKey, ClaimedKey}
	if err := leaveScript.Run(ctx, i.config.Claims, keys, i.self).Err(); err != nil {
		i.config.Log.Warn("claims are not given back; they are free when their lease is over", "lease", i.config.Lease, "error", err)
	}
}
