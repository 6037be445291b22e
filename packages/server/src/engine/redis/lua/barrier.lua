-- A small write, because a WAIT proves nothing on a connection without a write before it.
--
-- KEYS   barrier
-- Gives  the history in which it was written, and nothing else
local function barrier(KEYS)
  redis.call("SET", KEYS[1], 1, "EX", 60)
  return replid()
end
register("barrier", barrier, { "allow-oom" })
