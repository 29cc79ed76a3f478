package presence

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"relapse/topologies/services/platform/api"
)

// Bounds of what is read and handled at once.
const (
	readAtOnce  = 200 // players of a partition, in a tick; the others are due in the next
	batchAtOnce = 50  // players of a partition
)

var (
	//go:embed scripts/raise.lua
	raiseSource string
	//go:embed scripts/due.lua
	dueSource string
	//go:embed scripts/mark.lua
	markSource string

	raiseScript = redis.NewScript(raiseSource)
	dueScript   = redis.NewScript(dueSource)
	markScript  = redis.NewScript(markSource)
)

// raise shows claims to the lists. It gives the highest number that they know and the
// partitions whose claims they refuse.
func (i *Instance) raise(ctx context.Context, claims map[int]int64) (top int64, refused []int, err error) {
	args := []any{i.self}
	for k, number := range claims {
		args = append(args, k, number)
	}
	reply, err := raiseScript.Run(ctx, i.config.Lists, []string{FencesKey, TopKey}, args...).Int64Slice()
	if err != nil {
		return 0, nil, fmt.Errorf("show claims to the lists: %w", err)
	}
	for _, k := range reply[1:] {
		refused = append(refused, int(k))
	}
	return reply[0], refused, nil
}

// heartbeat is a player's last one, in ms on the lists' clock.
type heartbeat struct{ player, at int64 }

// batch is players of one partition who are due.
type batch struct {
	partition int
	number    int64 // of the claim
	players   []heartbeat
}

// due finds who is due, in the order of the partitions given. From says where to
// begin in each: -inf, or a bound of ZRANGEBYSCORE. It gives the last heartbeat that
// is due now, too.
func (i *Instance) due(ctx context.Context, partitions []int, from func(partition int) string, most int) (last int64, found []batch, err error) {
	ctx, cancel := context.WithTimeout(ctx, i.config.callWithin())
	defer cancel()
	keys := make([]string, len(partitions))
	args := []any{i.config.OfflineAfter.Milliseconds(), i.config.Late.Milliseconds(), i.config.Tick.Milliseconds(), most}
	for n, k := range partitions {
		keys[n] = api.SeenKey(k)
		args = append(args, from(k))
	}
	reply, err := dueScript.Run(ctx, i.config.Lists, keys, args...).Int64Slice()
	if err != nil {
		return 0, nil, fmt.Errorf("ask who is due: %w", err)
	}
	last = reply[0]
	for rest := reply[1:]; len(rest) > 0; {
		b := batch{partition: partitions[rest[0]]}
		count := rest[1]
		for pair := rest[2 : 2+2*count]; len(pair) > 0; pair = pair[2:] {
			b.players = append(b.players, heartbeat{pair[0], pair[1]})
		}
		found = append(found, b)
		rest = rest[2+2*count:]
	}
	return last, found, nil
}

// marked is what came of a batch.
type marked struct {
	refused bool // the claim is not the last one
	passed  int  // players who were heard of meanwhile, or marked for that tick before
	delays  []time.Duration
}

// mark marks players offline.
func (i *Instance) mark(ctx context.Context, b batch) (marked, error) {
	ctx, cancel := context.WithTimeout(ctx, i.config.callWithin())
	defer cancel()
	flag := map[bool]int{true: 1}
	args := []any{
		b.partition, b.number, i.self,
		i.config.OfflineAfter.Milliseconds(), i.config.Late.Milliseconds(), i.config.Tick.Milliseconds(),
		flag[!i.config.Unfenced && !i.config.Unpartitioned], flag[!i.config.Unpartitioned],
	}
	for _, h := range b.players {
		args = append(args, h.player, h.at)
	}
	keys := []string{api.SeenKey(b.partition), MarksKey(b.partition), FencesKey, ActionsKey}
	reply, err := markScript.Run(ctx, i.config.Lists, keys, args...).Int64Slice()
	switch {
	case err != nil:
		return marked{}, fmt.Errorf("mark players of partition %d offline: %w", b.partition, err)
	case reply[0] == 1:
		return marked{refused: true}, nil
	}
	m := marked{passed: int(reply[1])}
	for _, ms := range reply[2:] {
		m.delays = append(m.delays, time.Duration(ms)*time.Millisecond)
	}
	return m, nil
}
