-- The nodes whose record stands, by this master's clock.
--
-- KEYS   nodes
-- Gives  { nodes, replid, time, { id, until in ms, id, until in ms, ... } }
local function nodes(KEYS)
  local us = clock()
  local now = math.floor(us / 1000)
  local found = redis.call("ZRANGE", KEYS[1], "(" .. text(now), text(now + ALIVE_MS), "BYSCORE", "WITHSCORES")
  return { "nodes", replid(), text(us), found }
end
register("nodes", nodes, { "no-writes" })
