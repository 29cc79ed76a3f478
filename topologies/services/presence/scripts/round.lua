-- One round of an instance: renews what it has, claims what is free, takes its share
-- from others. Package presence has the rules.
--
-- KEYS  claims, instances, joined, number, claimed (keys.go)
-- ARGV  1 owner  2 lease, ms  3 interval, ms  4 number that new ones must be above
--       5 most that are taken from others  6 partitions
--       7 1 to be greedy
--       8… partitions to be numbered anew
-- Gives instances that are there, partitions that were free, stolen, anew, moved
-- (that another one had), then partition and number of each that the owner has.

local self, lease, interval = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local top = math.max(tonumber(redis.call('GET', KEYS[4]) or 0), tonumber(ARGV[4]))
local most, partitions, greedy = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local anew = {}
for i = 8, #ARGV do
  anew[tonumber(ARGV[i])] = true
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local till = now + lease

-- Who is there.
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  redis.call('ZREM', KEYS[2], gone)
  redis.call('HDEL', KEYS[3], gone)
end
redis.call('ZADD', KEYS[2], till, self)
redis.call('HSETNX', KEYS[3], self, now)

local instances = redis.call('ZRANGE', KEYS[2], 0, -1)
local members, member = 0, false
for _, name in ipairs(instances) do
  if tonumber(redis.call('HGET', KEYS[3], name) or now) <= now - lease then
    members = members + 1
    member = member or name == self
  end
end
if members == 0 or greedy then
  members, member = #instances, true
end

-- Who has what.
local claims = {}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local number, ends, owner = string.match(stored[i + 1], '^(%d+) (%d+) (.*)$')
  claims[tonumber(stored[i])] = {number = tonumber(number), till = tonumber(ends), owner = owner}
end

local done = {free = 0, stolen = 0, anew = 0}
local moved = 0

local function store(k)
  local c = claims[k]
  redis.call('HSET', KEYS[1], k, string.format('%d %d %s', c.number, c.till, c.owner))
end

local function claim(k, how)
  local from = claims[k] and claims[k].owner or ''
  top = top + 1
  claims[k] = {number = top, till = till, owner = self}
  store(k)
  redis.call('XADD', KEYS[5], 'MAXLEN', '~', 100000, '*', 'partition', k, 'number', string.format('%d', top),
    'owner', self, 'from', from, 'how', how, 'at', string.format('%d', now))
  done[how] = done[how] + 1
  if from ~= '' and from ~= self then
    moved = moved + 1
  end
end

local own = 0
local others = {} -- the partitions of each other owner
for k = 0, partitions - 1 do
  local c = claims[k]
  if c and c.till > now then
    if c.owner ~= self then
      others[c.owner] = others[c.owner] or {}
      table.insert(others[c.owner], k)
    else
      own = own + 1
      if anew[k] then
        claim(k, 'anew')
      else
        c.till = till
        store(k)
      end
    end
  end
end

local share = math.ceil(partitions / members)
if greedy then
  share = math.ceil(partitions / math.max(1, members - 1)) -- as it was before the last one came
end

-- What is free.
if member then
  for k = 0, partitions - 1 do
    local c = claims[k]
    if not c or (c.till <= now and (own < share or now - c.till > interval)) then
      claim(k, 'free')
      own = own + 1
    end
  end
end

-- What others have more of.
local function fullest()
  local name, count = nil, 0
  for owner, list in pairs(others) do
    if #list > count or (#list == count and name and owner < name) then
      name, count = owner, #list
    end
  end
  return name, count
end

local function enough(count)
  if own >= share or count == 0 then
    return true
  end
  return not greedy and (done.stolen >= most or count - own < 2)
end

while member do
  local owner, count = fullest()
  if enough(count) then
    break
  end
  claim(table.remove(others[owner]), 'stolen')
  own = own + 1
end

redis.call('SET', KEYS[4], string.format('%d', top))

local reply = {#instances, done.free, done.stolen, done.anew, moved}
for k = 0, partitions - 1 do
  local c = claims[k]
  if c and c.owner == self and c.till > now then
    table.insert(reply, k)
    table.insert(reply, c.number)
  end
end
return reply
