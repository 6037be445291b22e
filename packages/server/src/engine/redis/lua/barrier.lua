-- A small write, so that the WAIT that follows it on the same connection has something to wait for.
--
-- KEYS   barrier
-- Gives  the history that it was written in, and nothing else
local function barrier(KEYS)
  redis.call("SET", KEYS[1], 1, "EX", 60)
  return replid()
end
register("barrier", barrier, { "allow-oom" })
