package simulants

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisRanges are [Ranges] that several harnesses share through Redis, with a lease on
// Redis' own clock. All of a renewal is one script, so that harnesses that begin
// together cannot both take a range, nor count each other wrongly.
type RedisRanges struct {
	client *redis.Client
	id     string
	ranges int
	lease  time.Duration
}

// Keys in Redis. They have one hash tag, so that they are together in a cluster.
var redisKeys = []string{
	"{simulants}:harnesses", // sorted set: who is there, by the end of its lease
	"{simulants}:holders",   // hash: range -> who plays it
	"{simulants}:orders",    // hash: who -> players that were ordered of it
}

// keepScript keeps and takes ranges.
//
// ARGV: the harness, its lease in ms, how many ranges there are, what was ordered of it
// ("" for nothing yet), and the ranges that it keeps. It answers with: how many of its
// ranges it is to give back; what was ordered of all, in thousandths; and its ranges.
//
// The even share of a harness is ranges/harnesses, and one more for as many of them, by
// name, as are left over: no two of them ever want the same one for long. A range of
// somebody whose lease is over is free. One that is too many is not taken from whoever
// plays it: it is asked back, and free once it is not kept any more.
var keepScript = redis.NewScript(`
local me, lease, ranges, order = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + lease, me)
if order ~= '' then redis.call('HSET', KEYS[3], me, order) end

local here, names = {}, redis.call('ZRANGE', KEYS[1], 0, -1)
table.sort(names)
local share = math.floor(ranges / #names)
for n, name in ipairs(names) do
  here[name] = true
  if name == me and n <= ranges % #names then share = share + 1 end
end

local keeps = {}
for n = 5, #ARGV do keeps[tonumber(ARGV[n])] = true end
local mine, free = {}, {}
for r = 0, ranges - 1 do
  local holder = redis.call('HGET', KEYS[2], r)
  if holder == me and keeps[r] then
    mine[#mine + 1] = r
  elseif not holder or holder == me or not here[holder] then
    free[#free + 1] = r
    if holder then redis.call('HDEL', KEYS[2], r) end
  end
end
for _, r in ipairs(free) do
  if #mine >= share then break end
  redis.call('HSET', KEYS[2], r, me)
  mine[#mine + 1] = r
end

local ordered = 0
for _, players in ipairs(redis.call('HVALS', KEYS[3])) do ordered = ordered + tonumber(players) end
table.sort(mine)
local out = {math.max(0, #mine - share), math.floor(ordered * 1000)}
for _, r in ipairs(mine) do out[#out + 1] = r end
return out
`)

// leaveScript gives everything back. What was ordered of a harness that leaves is the
// others' from now on. ARGV: the harness, how many ranges there are.
var leaveScript = redis.NewScript(`
redis.call('ZREM', KEYS[1], ARGV[1])
for r = 0, tonumber(ARGV[2]) - 1 do
  if redis.call('HGET', KEYS[2], r) == ARGV[1] then redis.call('HDEL', KEYS[2], r) end
end
return 0
`)

// NewRedisRanges shares the ranges of a configuration with the other harnesses of the
// same Redis. The id is the harness's own, and the same one after it was started again:
// the name of its container. It must be closed once nobody asks it any more.
func NewRedisRanges(c Config, id string) (*RedisRanges, error) {
	if c.Shared == nil {
		return nil, fmt.Errorf("%w: shared is missing: write shared: {redis: redis:6379, lease: 1500ms}", ErrConfig)
	}
	if id == "" {
		return nil, fmt.Errorf("%w: a harness that shares ranges needs an id", ErrConfig)
	}
	return &RedisRanges{
		client: redis.NewClient(&redis.Options{
			Addr: c.Shared.Redis,
			// An answer later than this is no use: the lease must be renewed often.
			DialTimeout: c.Shared.Lease / perLease, ReadTimeout: c.Shared.Lease / perLease, WriteTimeout: c.Shared.Lease / perLease,
			MaxRetries: -1, DialerRetries: 1, // the harness asks again by itself, with what holds then
			Protocol: 2, DisableIdentity: true, PoolSize: 2, ContextTimeoutEnabled: true,
		}),
		id: id, ranges: c.Ranges, lease: c.Shared.Lease,
	}, nil
}

// Keep implements [Ranges].
func (r *RedisRanges) Keep(ctx context.Context, ask Ask) (Holding, error) {
	ordered := ""
	if ask.Players != nil {
		ordered = strconv.FormatFloat(*ask.Players, 'f', -1, 64)
	}
	args := []any{r.id, r.lease.Milliseconds(), r.ranges, ordered}
	for _, n := range ask.Keep {
		args = append(args, n)
	}
	said, err := keepScript.Run(ctx, r.client, redisKeys, args...).Int64Slice()
	if err != nil {
		return Holding{}, fmt.Errorf("ranges of %s in redis: %w", r.id, err)
	}
	h := Holding{Spare: int(said[0]), Lease: r.lease}
	for _, n := range said[2:] {
		h.Ranges = append(h.Ranges, int(n))
	}
	h.Players = float64(said[1]) / 1000 * float64(len(h.Ranges)-h.Spare) / float64(r.ranges)
	return h, nil
}

// Leave implements [Ranges].
func (r *RedisRanges) Leave(ctx context.Context) error {
	if err := leaveScript.Run(ctx, r.client, redisKeys[:2], r.id, r.ranges).Err(); err != nil {
		return fmt.Errorf("give the ranges of %s in redis back: %w", r.id, err)
	}
	return nil
}

// Close closes the connections.
func (r *RedisRanges) Close() error { return r.client.Close() }
