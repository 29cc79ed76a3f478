-- Finds the players of some partitions who are due.
--
-- KEYS  the heartbeats of each partition (keys.go)
-- ARGV  1 offline after, ms  2 late, ms  3 tick, ms  4 most of each partition, -1 for all
--       5… where to begin in each, a bound of ZRANGEBYSCORE
-- Gives the last heartbeat that is due, in ms, then of each partition that has some:
-- its place among the keys, how many, and player and heartbeat of each.

local offline, late, tick = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local last = math.floor((now - late) / tick) * tick - offline
local reply = {last}
for i, key in ipairs(KEYS) do
  local found = redis.call('ZRANGEBYSCORE', key, ARGV[4 + i], string.format('%d', last), 'WITHSCORES', 'LIMIT', 0, ARGV[4])
  if #found > 0 then
    table.insert(reply, i - 1)
    table.insert(reply, #found / 2)
    for j = 1, #found, 2 do
      local player = tonumber(found[j])
      if not player then
        return redis.error_reply('ERR ' .. key .. ' has the member "' .. found[j] .. '": want numbers of players; remove it')
      end
      table.insert(reply, player)
      table.insert(reply, math.floor(tonumber(found[j + 1])))
    end
  end
end
return reply
