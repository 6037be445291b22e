-- Renews the record of a node, by this master's clock, and removes the records that have ended.
--
-- KEYS   nodes
-- ARGV   node
-- Gives  { alive, replid, time }
local function alive(KEYS, A)
  local us = clock()
  local now = math.floor(us / 1000)
  redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", text(now))
  redis.call("ZADD", KEYS[1], text(now + ALIVE_MS), A[1])
  -- A record that lies further ahead was written by a master with another clock; its node renews it if it lives.
  redis.call("ZREMRANGEBYSCORE", KEYS[1], "(" .. text(now + ALIVE_MS), "+inf")
  redis.call("PEXPIRE", KEYS[1], ALIVE_MS)
  return { "alive", replid(), text(us) }
end
register("alive", alive, { "allow-oom" })
