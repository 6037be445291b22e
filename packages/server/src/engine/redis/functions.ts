/**
 * What runs inside Redis: one generic commit, and the few reads and writes beside it that must be one step. No rule of the
 * product is here; the functions know revs, numbers and keys. `calls.ts` loads the library wherever it is missing.
 *
 * The library is named by a hash of its text: nodes of two versions, or with other settings, use their own side by side.
 *
 * The head, one string of 15 words:
 *   rev generation lastGeneration lastSeq bytes at startGeneration startSeq startBytes survivedGeneration survivedSeq replid
 *   writer number turn
 *   replid     the history of the master that wrote it. Another one now means that a failover has been, and that the end of
 *              what was written before may be lost.
 *   writer     the engine that committed last, and which of its commits that was: the same commit sent again is told so.
 *   turn       an engine that lost again and again and whose turn it is now, and until when (us): others wait that long.
 *
 * A function that fails half way is not rolled back, so each checks everything before it writes anything.
 * Numbers are written by %.0f: Lua would shorten large ones.
 */
import { createHash } from "node:crypto";
import type { RedisLimits } from "./options.ts";
import { SWAP } from "./swap.ts";

const BODY = `local function text(x) return string.format("%.0f", x) end
local function clock()
  local t = redis.call("TIME")
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local function replid()
  local info = redis.call("INFO", "replication")
  local _, before = string.find(info, "master_replid:", 1, true)
  return string.sub(info, before + 1, before + 40)
end

-- A hint, and only for who listens here: told to nobody it would still go to every replica. A user who may not publish can
-- commit all the same.
local function publish(channel, rev)
  local listeners = redis.pcall("PUBSUB", "SHARDNUMSUB", channel)
  if listeners.err or listeners[2] > 0 then redis.pcall("SPUBLISH", channel, rev) end
end

local HEAD = "^${"(%S+) ".repeat(14)}(%S+)$"
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

-- Which of its commits a writer is known by, now that the head speaks of another, and what that one left.
local function remember(key, writer, number, numbers)
  if writer == "-" then return end
  redis.call("HSET", key, writer, text(number) .. " " .. numbers)
  redis.call("EXPIRE", key, WRITER_SECONDS)
end

-- What the effects make of the head, and the writes they take; or why they cannot be.
local function plan(K, A, i, h, buried, name)
  local writes = {}
  local function write(...) writes[#writes + 1] = { ... } end
  local destroyed = false
  while i <= #A do
    local op = A[i]
    if destroyed then return nil, "an effect follows a destroy" end
    if op == "append" or op == "append-each" then
      local count, at = tonumber(A[i + 1]), A[i + 2]
      i = i + (op == "append" and 3 or 2)
      if h[2] == 0 and count > 0 then return nil, "append to a log that was never begun" end
      local prefix = text(h[2]) .. "-"
      for _ = 1, count do
        local payload = A[i]
        h[3] = h[2]
        h[4] = h[4] + 1
        h[5] = h[5] + #payload
        local id = prefix .. text(h[4])
        if op == "append" then
          write("XADD", K.log, id, "p", payload, "a", at)
          i = i + 1
        else
          local extra = tonumber(A[i + 2])
          at = A[i + 1]
          write("XADD", K.log, id, "p", payload, "a", at, unpack(A, i + 3, i + 2 + extra))
          i = i + 3 + extra
        end
      end
      if count > 0 then h[6] = tonumber(at) end
    elseif op == "put" then
      write("HSET", K.rows, A[i + 1], A[i + 2])
      write("ZADD", K.order, 0, A[i + 1])
      i = i + 3
    elseif op == "drop" then
      write("HDEL", K.rows, A[i + 1])
      write("ZREM", K.order, A[i + 1])
      i = i + 2
    elseif op == "trim" then
      local generation, seq, bytes = tonumber(A[i + 1]), tonumber(A[i + 2]), tonumber(A[i + 3])
      if generation > h[3] or (generation == h[3] and seq > h[4]) then return nil, "trim beyond the last message" end
      if generation > h[7] or (generation == h[7] and seq > h[8]) then
        h[7] = generation
        h[8] = seq
        h[9] = bytes
        write("XTRIM", K.log, "MINID", text(generation) .. "-" .. text(seq + 1))
      end
      i = i + 4
    elseif op == "remind" then
      if A[i + 1] == "" then write("ZREM", K.due, name) else write("ZADD", K.due, A[i + 1], name) end
      i = i + 2
    elseif op == "begin" then
      local generation, at = tonumber(A[i + 1]), tonumber(A[i + 2])
      if generation <= buried then return nil, nil end
      if generation <= h[2] or generation < at then return nil, "a generation cannot follow a later one" end
      h[2] = generation
      h[3] = at
      h[4] = tonumber(A[i + 3])
      h[5] = 0
      h[6] = 0
      h[7] = h[3]
      h[8] = h[4]
      h[9] = 0
      h[10], h[11] = 0, 0
      write("UNLINK", K.log)
      i = i + 4
    elseif op == "destroy" then
      destroyed = true
      i = i + 1
    else return nil, "unknown effect " .. tostring(op) end
  end
  return writes, destroyed
end

-- KEYS  head log rows order writers tombstone, owner; and due ids projects when the commit may touch these: when it creates,
--       reminds or destroys
-- ARGV  rev writer number; how often in a row this writer has lost; epoch and nonce of the owner, or nothing; how many rows a
--       conflict shows, their names; then, with the last three keys, entity id project; effects
--       begin generation atGeneration atSeq | append count at payload* | append-each count (payload at n n*word)*
--       | mark (alone: changes nothing, and closes what this writer sent before) | put name value | drop name | trim generation seq bytes | remind at-or-nothing | destroy
-- gives { done, replid, time, head }, or a snapshot whose kind is conflict, fenced, stale, or wait: another's turn, try again soon
local function commit(KEYS, A)
  local K = { head = KEYS[1], log = KEYS[2], rows = KEYS[3], order = KEYS[4], writers = KEYS[5], tombstone = KEYS[6],
    owner = KEYS[7], due = KEYS[8], ids = KEYS[9], projects = KEYS[10] }
  local us, id, h = clock(), replid(), head_of(KEYS[1])
  local rev, writer, number = tonumber(A[1]), A[2], tonumber(A[3])
  local count = tonumber(A[6])
  local effects = 7 + count
  local name, entity_id, project
  if K.due then
    name, entity_id, project = A[effects], A[effects + 1], A[effects + 2]
    effects = effects + 3
  end
  local function answer(kind) return snapshot(kind, K, A, 7, count, h, id, us) end
  local function done(at) return { "done", id, text(us), at } end

  local seen, seen_at
  if h[13] == writer then
    seen = h[14]
    seen_at = seen == number and shown(h)
  else
    local record = redis.call("HGET", K.writers, writer)
    if record then
      local word, rest = string.match(record, "^(%S+) (.*)$")
      seen, seen_at = tonumber(word), rest
    end
  end
  if seen == number then return done(seen_at) end
  if seen and seen > number and effects <= #A then return answer("stale") end

  if A[5] ~= "" then
    local owner, till = string.match(redis.call("GET", K.owner) or "", "^(%S+ %S+) (%S+)")
    if owner ~= A[5] or tonumber(till) * 1000 <= us then return answer("fenced") end
  end
  -- Another history than the one that wrote last: its end may be lost. What is appended from here on sorts above it.
  if h[1] ~= 0 and h[12] ~= id then
    -- Who committed last is told of that commit, not of this, when it asks again.
    remember(K.writers, h[13], h[14], shown(h))
    h[12], h[13], h[14], h[15] = id, "-", 0, "-"
    h[1] = math.max(h[1] + 1, us)
    if h[2] > 0 then
      h[2] = math.max(h[2] + 1, math.floor(us / 1000))
      h[10], h[11] = h[3], h[4]
    end
    redis.call("SET", K.head, stored(h, shown(h)))
    publish(K.head, text(h[1]))
    return answer("conflict")
  end
  local turn, turn_ends = string.match(h[15], "^(%w+):(%d+)$")
  -- One that lies further ahead than any turn lasts was written under another clock.
  if turn and (tonumber(turn_ends) < us or tonumber(turn_ends) > us + TURN_US) then turn = nil end
  if turn and turn ~= writer and h[1] == rev then return answer("wait") end
  if h[1] ~= rev then
    -- Who has lost too often goes next: otherwise the node that is nearest to this master would win every time.
    if h[1] ~= 0 and tonumber(A[4]) >= PATIENCE and not turn then
      h[15] = writer .. ":" .. text(us + TURN_US)
      redis.call("SET", K.head, stored(h, shown(h)))
    end
    return answer("conflict")
  end
  if effects > #A then return done(shown(h)) end
  if A[effects] == "mark" then
    local numbers = shown(h)
    if h[1] == 0 then remember(K.writers, writer, number, numbers)
    else
      if h[13] ~= writer then remember(K.writers, h[13], h[14], numbers) end
      h[13], h[14] = writer, number
      redis.call("SET", K.head, stored(h, numbers))
    end
    return done(numbers)
  end

  local buried, buried_rev = tombstone_of(K.tombstone, h)
  local displaced, displaced_number = h[13], h[14]
  local before = displaced ~= "-" and displaced ~= writer and shown(h)
  local writes, destroyed = plan(K, A, effects, h, buried, name)
  if not writes then
    if destroyed then return redis.error_reply("SLUICE " .. destroyed) end
    h = head_of(K.head)
    return answer("conflict")
  end
  -- From here on nothing fails.
  local is_new = h[1] == 0
  h[1] = math.max(h[1] + 1, buried_rev + 1, us)
  h[12], h[13], h[14], h[15] = id, writer, number, "-"
  if before then remember(K.writers, displaced, displaced_number, before) end
  local numbers
  if destroyed then
    redis.call("UNLINK", K.head, K.log, K.rows, K.order)
    redis.call("ZREM", K.due, name)
    if redis.call("ZREM", K.ids, entity_id) == 1 and redis.call("EXISTS", K.ids) == 0 then redis.call("SREM", K.projects, project) end
    redis.call("SET", K.tombstone, text(math.max(h[2], buried)) .. " " .. text(h[1]), "EX", TOMBSTONE_SECONDS)
    h = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
    numbers = shown(h)
    remember(K.writers, writer, number, numbers)
  else
    for _, write in ipairs(writes) do redis.call(unpack(write)) end
    numbers = shown(h)
    redis.call("SET", K.head, stored(h, numbers))
    if is_new then
      redis.call("ZADD", K.ids, 0, entity_id)
      redis.call("SADD", K.projects, project)
    end
  end
  publish(K.head, text(h[1]))
  return done(numbers)
end

-- KEYS  head rows tombstone     ARGV  names of rows     gives  a snapshot
local function load(KEYS, A)
  local K = { rows = KEYS[2], tombstone = KEYS[3] }
  return snapshot("snapshot", K, A, 1, #A, head_of(KEYS[1]), replid(), clock())
end

-- KEYS  head log     ARGV  generation seq maxBytes maxMessages
-- gives { page, replid, time, head, 0, suspect, entries, whether there is more }
local function read(KEYS, A)
  local h, id = head_of(KEYS[1]), replid()
  local max_bytes, max_messages = tonumber(A[3]), tonumber(A[4])
  local from, found, bytes, more = "(" .. A[1] .. "-" .. A[2], {}, 0, 0
  -- A few first, then more of them: what is looked at beyond the page may be large, and holds up everybody else meanwhile.
  local step = 1
  repeat
    step = math.min(step * 2, 256)
    local part = redis.call("XRANGE", KEYS[2], from, "+", "COUNT", step)
    for _, entry in ipairs(part) do
      bytes = bytes + #entry[2][2]
      if #found > 0 and (bytes > max_bytes or #found == max_messages) then more = 1; break end
      found[#found + 1] = entry
    end
    if #part > 0 then from = "(" .. part[#part][1] end
  until more == 1 or #part < step
  return { "page", id, text(clock()), shown(h), "0", (h[1] ~= 0 and h[12] ~= id) and 1 or 0, found, more }
end

-- KEYS  order rows     ARGV  from to limit, as ZRANGE takes them     gives { rows, replid, time, names, values }
local function rows(KEYS, A)
  local names = redis.call("ZRANGE", KEYS[1], A[1], A[2], "BYLEX", "LIMIT", 0, A[3])
  return { "rows", replid(), text(clock()), names, rows_of(KEYS[2], names, 1, #names) }
end

-- KEYS  owner     ARGV  node ttlMs nonce, epoch and nonce that are to be renewed     gives { owner|held, replid, time, ... }
local function claim(KEYS, A)
  local us, id = clock(), replid()
  local now = math.floor(us / 1000)
  local epoch, nonce, till, node = string.match(redis.call("GET", KEYS[1]) or "", "^(%S+) (%S+) (%S+) (.*)$")
  local stands = epoch and tonumber(till) > now
  -- The new nonce is there already when this very claim is sent again.
  local is_own = stands and (nonce == A[3] or (epoch == A[4] and nonce == A[5]))
  if stands and not is_own then return { "held", id, text(us), node, till } end
  if not is_own then
    epoch = text(math.max((tonumber(epoch) or 0) + 1, now))
    nonce = A[3]
  end
  local ttl = tonumber(A[2])
  redis.call("SET", KEYS[1], epoch .. " " .. nonce .. " " .. text(now + ttl) .. " " .. A[1], "PX", text(ttl + TOMBSTONE_SECONDS * 1000))
  return { "owner", id, text(us), epoch, nonce }
end

-- KEYS  owner     ARGV  epoch nonce
local function release(KEYS, A)
  local epoch, nonce, _, node = string.match(redis.call("GET", KEYS[1]) or "", "^(%S+) (%S+) (%S+) (.*)$")
  if epoch == A[1] and nonce == A[2] then
    redis.call("SET", KEYS[1], epoch .. " " .. nonce .. " 0 " .. node, "EX", TOMBSTONE_SECONDS)
  end
  return { "released", replid(), text(clock()) }
end

-- KEYS  window     ARGV  limit windowMs     gives { allowed, replid, time, remaining } or { limited, replid, time, ms left }
local function hit(KEYS, A)
  local function answer(kind, count) return { kind, replid(), text(clock()), text(count) } end
  local limit, hits, left = tonumber(A[1]), tonumber(redis.call("GET", KEYS[1]) or "0"), redis.call("PTTL", KEYS[1])
  if left < 0 then
    hits, left = 0, tonumber(A[2])
    redis.call("SET", KEYS[1], 0, "PX", A[2])
  end
  if hits >= limit then return answer("limited", math.min(left + 1, tonumber(A[2]))) end
  redis.call("INCR", KEYS[1])
  return answer("allowed", limit - hits - 1)
end

-- KEYS  barrier     gives the history it was written in
local function barrier(KEYS)
  redis.call("SET", KEYS[1], 1, "EX", 60)
  return replid()
end

redis.register_function("@_commit", commit)
redis.register_function{ function_name = "@_free", callback = commit, flags = { "allow-oom" } }
redis.register_function{ function_name = "@_load", callback = load, flags = { "no-writes" } }
redis.register_function{ function_name = "@_read", callback = read, flags = { "no-writes" } }
redis.register_function{ function_name = "@_rows", callback = rows, flags = { "no-writes" } }
redis.register_function("@_claim", claim)
redis.register_function{ function_name = "@_release", callback = release, flags = { "allow-oom" } }
redis.register_function{ function_name = "@_hit", callback = hit, flags = { "allow-oom" } }
redis.register_function{ function_name = "@_barrier", callback = barrier, flags = { "allow-oom" } }
`;

/** `free` is `commit` for what only takes away: that goes on when Redis has no memory left. */
const NAMES = ["commit", "free", "load", "read", "rows", "claim", "release", "hit", "barrier", "swap"] as const;
export type FunctionName = (typeof NAMES)[number];

export interface Library {
  readonly source: string;
  /** The functions, as they are called. */
  readonly functions: Readonly<Record<FunctionName, string>>;
}

type Constants = Pick<RedisLimits, "tombstoneSeconds" | "writerSeconds" | "turnLosses" | "turnMs">;

export function libraryOf({ tombstoneSeconds, writerSeconds, turnLosses, turnMs }: Constants): Library {
  const constants = `local TOMBSTONE_SECONDS = ${tombstoneSeconds}
local WRITER_SECONDS = ${writerSeconds}
local PATIENCE = ${turnLosses}
local TURN_US = ${turnMs * 1_000}
`;
  const body = constants + BODY + SWAP;
  const name = `sluice_${createHash("sha256").update(body).digest("hex").slice(0, 12)}`;
  const functions = Object.fromEntries(NAMES.map((one) => [one, `${name}_${one}`])) as Library["functions"];
  return { source: `#!lua name=${name}\n${body.replaceAll("@_", `${name}_`)}`, functions };
}
