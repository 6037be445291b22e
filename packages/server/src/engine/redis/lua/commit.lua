-- The general commit: all of its effects, or none. Registered a second time as `free`, for what only takes away: that goes on
-- when Redis has no memory left.
--
-- KEYS   head log rows order writers tombstone owner; and due ids projects when the commit may touch these: when it creates,
--        reminds or destroys
-- ARGV   rev writer number; how often in a row this writer has lost; epoch and nonce of the owner, or nothing; how many rows a
--        conflict shows, their names; then, with the last three keys, entity id project; effects, as plan.lua lists them, or
--        mark (alone: changes nothing, and closes what this writer sent before)
-- Gives  { done, replid, time, head }, or a snapshot whose kind is conflict, fenced, stale (a later commit of this writer came
--        first), or wait (another node's turn: try again soon)
-- Invariants: a commit that is sent again under its number is answered as the first time and applies once.

-- Which of its commits a writer is known by, now that the head speaks of another, and what that one left.
local function remember(key, writer, number, numbers)
  if writer == "-" then return end
  redis.call("HSET", key, writer, text(number) .. " " .. numbers)
  redis.call("EXPIRE", key, WRITER_SECONDS)
end

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
    -- The writer of the last commit is told of that commit, not of this, when it asks again.
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
    -- A writer that has lost too often goes next: otherwise the node nearest to this master would win every time.
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

register("commit", commit)
register("free", commit, { "allow-oom" })
