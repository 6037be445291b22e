-- What every function of the library stands on: time, history, the head of an entity, snapshots. Registers nothing.
-- functions.ts puts this file first, after the constants LIBRARY, TOMBSTONE_SECONDS, WRITER_SECONDS, PATIENCE, TURN_US, ALIVE_MS.
--
-- The head, one string of 15 words:
--   rev generation lastGeneration lastSeq bytes at startGeneration startSeq startBytes survivedGeneration survivedSeq replid
--   writer number turn
--   replid     the history of the master that wrote it. Another one now means that a failover has been, and that the end of
--              what was written before may be lost.
--   writer     the node that committed last, and which of its commits that was: the same commit sent again is told so.
--   turn       a node that lost again and again and whose turn it is now, and until when (us): other nodes wait that long.
--
-- Invariants: a function that fails half way is not rolled back, so each checks everything before it writes anything.
-- Numbers are written by %.0f, because Lua would shorten large ones.
-- Every reply starts with { kind, replid, time in us }.

local function register(name, callback, flags)
  redis.register_function{ function_name = LIBRARY .. "_" .. name, callback = callback, flags = flags or {} }
end

local function text(x) return string.format("%.0f", x) end
local function clock()
  local t = redis.call("TIME")
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local function replid()
  local info = redis.call("INFO", "replication")
  local _, before = string.find(info, "master_replid:", 1, true)
  return string.sub(info, before + 1, before + 40)
end

-- A hint, sent only when a node listens on this master: without a listener it would still go to every replica. A user who may
-- not publish can commit all the same.
local function publish(channel, rev)
  local listeners = redis.pcall("PUBSUB", "SHARDNUMSUB", channel)
  if listeners.err or listeners[2] > 0 then redis.pcall("SPUBLISH", channel, rev) end
end

local HEAD = "^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$"
-- The head: 1 rev, 2 generation, 3 4 last, 5 bytes, 6 at, 7 8 start, 9 startBytes, 10 11 survived,
-- 12 replid, 13 writer, 14 number, 15 turn
local function head_of(key)
  local stored = redis.call("GET", key)
  if not stored then return { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "-", "-", 0, "-" } end
  local h = { string.match(stored, HEAD) }
  for i = 1, 11 do h[i] = tonumber(h[i]) end
  h[14] = tonumber(h[14])
  return h
end
local function shown(h)
  return string.format("%.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f",
    h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11])
end
local function stored(h, numbers) return numbers .. " " .. h[12] .. " " .. h[13] .. " " .. text(h[14]) .. " " .. h[15] end

-- A log that was begun is later than anything buried.
local function tombstone_of(key, h)
  local stored = h[2] == 0 and redis.call("GET", key)
  if not stored then return 0, 0 end
  local generation, rev = string.match(stored, "^(%S+) (%S+)$")
  return tonumber(generation), tonumber(rev)
end

-- More than this many at once would not fit on Lua's stack.
local function rows_of(key, names, from, count)
  local found = {}
  for i = from, from + count - 1, 1000 do
    local part = redis.call("HMGET", key, unpack(names, i, math.min(i + 999, from + count - 1)))
    for j = 1, #part do found[#found + 1] = part[j] end
  end
  return found
end

-- { kind, replid, time in us, head, nextGeneration, whether the head is of another history, rows }
local function snapshot(kind, K, names, from, count, h, id, us)
  local buried = tombstone_of(K.tombstone, h)
  local next_generation = math.max(h[2] + 1, buried + 1, math.floor(us / 1000))
  local suspect = h[1] ~= 0 and h[12] ~= id
  return { kind, id, text(us), shown(h), text(next_generation), suspect and 1 or 0, rows_of(K.rows, names, from, count) }
end

-- The owner of an entity: epoch, nonce, until when (ms), node; nothing when it was never owned.
local function owner_of(key)
  return string.match(redis.call("GET", key) or "", "^(%S+) (%S+) (%S+) (.*)$")
end
