-- Gives back what an instance has claimed, at its end.
--
-- KEYS  claims, instances, joined, claimed (keys.go)
-- ARGV  1 owner
-- Gives how many partitions it gave back.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local left = 0
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local number, till, owner = string.match(stored[i + 1], '^(%d+) (%d+) (.*)$')
  if owner == ARGV[1] and tonumber(till) > now then
    redis.call('HSET', KEYS[1], stored[i], string.format('%s %d %s', number, now, owner))
    redis.call('XADD', KEYS[4], 'MAXLEN', '~', 100000, '*', 'partition', stored[i], 'number', number,
      'owner', owner, 'how', 'left', 'at', string.format('%d', now))
    left = left + 1
  end
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return left
