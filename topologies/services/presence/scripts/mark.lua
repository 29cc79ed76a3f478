-- Marks players of one partition offline. This is the effect, so this is where the
-- claim is checked. Package presence has the reasons.
--
-- KEYS  heartbeats and marks of the partition, fences, actions (keys.go)
-- ARGV  1 partition  2 number of the claim  3 owner
--       4 offline after, ms  5 late, ms  6 tick, ms
--       7 1 to check the claim, the heartbeat and the last mark, 0 to write what it is told
--       8 1 to take the heartbeats off their list
--       9… player and heartbeat, of each
-- Gives 1 if the claim is refused; else 0, how many were passed over (they were
-- heard of meanwhile, or marked for that tick before), and for each who was marked
-- by how many ms that was after it was due.

local number, owner = tonumber(ARGV[2]), ARGV[3]
local offline, late, tick = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local checked, remove = ARGV[7] == '1', ARGV[8] == '1'
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

if checked then
  local known, whose = 0, ''
  local fence = redis.call('HGET', KEYS[3], ARGV[1])
  if fence then
    known, whose = string.match(fence, '^(%d+) (.*)$')
    known = tonumber(known)
  end
  if number < known or (number == known and whose ~= owner) then
    return {1}
  end
  if number > known then
    redis.call('HSET', KEYS[3], ARGV[1], string.format('%d %s', number, owner))
  end
end

local reply = {0, 0}
for i = 9, #ARGV, 2 do
  local player, seen = ARGV[i], tonumber(ARGV[i + 1])
  local go = true
  if checked then
    local score = redis.call('ZSCORE', KEYS[1], player)
    if score then
      seen = math.floor(tonumber(score))
    else
      go = false
    end
  end
  local due = math.ceil((seen + offline) / tick)
  if checked and go then
    if due * tick + late > now then
      go = false -- heard of meanwhile
    elseif due <= tonumber(redis.call('HGET', KEYS[2], player) or -1) then
      redis.call('ZREM', KEYS[1], player) -- the same heartbeat, written again
      go = false
    end
  end
  if go then
    redis.call('HSET', KEYS[2], player, string.format('%d', due))
    redis.call('XADD', KEYS[4], 'MAXLEN', '~', 1000000, '*', 'player', player, 'partition', ARGV[1],
      'due', string.format('%d', due), 'by', owner, 'number', ARGV[2],
      'seen', string.format('%d', seen), 'at', string.format('%d', now))
    if remove then
      redis.call('ZREM', KEYS[1], player)
    end
    table.insert(reply, now - due * tick)
  else
    reply[2] = reply[2] + 1
  end
end
return reply
