-- Rows of a table, in the order of their names.
--
-- KEYS   order rows
-- ARGV   from to limit, as ZRANGE takes them
-- Gives  { rows, replid, time, names, values }
local function rows(KEYS, A)
  local names = redis.call("ZRANGE", KEYS[1], A[1], A[2], "BYLEX", "LIMIT", 0, A[3])
  return { "rows", replid(), text(clock()), names, rows_of(KEYS[2], names, 1, #names) }
end
register("rows", rows, { "no-writes" })
