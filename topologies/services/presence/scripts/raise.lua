-- Shows claim numbers to the lists, which refuse lower ones from then on.
--
-- KEYS  fences, top (keys.go)
-- ARGV  1 owner  2… partition and number, of each claim
-- Gives the highest number that the lists know, then the partitions whose claims
-- are refused, since their numbers are not above the fence.

local top = tonumber(redis.call('GET', KEYS[2]) or 0)
local reply = {0}
for i = 2, #ARGV, 2 do
  local k, number = ARGV[i], tonumber(ARGV[i + 1])
  local known, owner = 0, ''
  local fence = redis.call('HGET', KEYS[1], k)
  if fence then
    known, owner = string.match(fence, '^(%d+) (.*)$')
    known = tonumber(known)
  end
  if number > known then
    redis.call('HSET', KEYS[1], k, string.format('%d %s', number, ARGV[1]))
  elseif number < known or owner ~= ARGV[1] then
    table.insert(reply, tonumber(k))
  end
  top = math.max(top, number, known)
end
redis.call('SET', KEYS[2], string.format('%d', top))
reply[1] = top
return reply
