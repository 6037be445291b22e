-- The short form of a commit, for the node that committed last: compares the whole head, writes the next one, parses neither.
-- swap.ts says when it is sent.
--
-- KEYS   head log; and rows order when rows change
-- ARGV   the head as it must be, as it becomes, and the history in both; effects
--        append count at (id payload)* | append-one id payload at n n*word | put name value | drop name | trim id
-- Gives  { done, replid, time }, or other instead of done: nothing was changed

-- INFO takes a while, so its answer is used for a millisecond: in less no master is voted out, follows another and is voted in
-- again.
local HISTORY_US = 1000
local known_history, known_us = "", 0
local function history(us)
  if us < known_us or us > known_us + HISTORY_US then
    known_history, known_us = replid(), us
  end
  return known_history
end

local function swap(KEYS, A)
  local us = clock()
  local id = history(us)
  local head, log = redis.call("GET", KEYS[1]), KEYS[2]
  if head == A[2] then return { "done", id, text(us) } end
  if head ~= A[1] or id ~= A[3] then return { "other", id, text(us) } end
  local i, last = 4, #A
  while i <= last do
    local op = A[i]
    if op == "append" then
      local at, past = A[i + 2], i + 3 + 2 * tonumber(A[i + 1])
      for j = i + 3, past - 1, 2 do redis.call("XADD", log, A[j], "p", A[j + 1], "a", at) end
      i = past
    elseif op == "append-one" then
      local past = i + 5 + tonumber(A[i + 4])
      redis.call("XADD", log, A[i + 1], "p", A[i + 2], "a", A[i + 3], unpack(A, i + 5, past - 1))
      i = past
    elseif op == "put" then
      redis.call("HSET", KEYS[3], A[i + 1], A[i + 2])
      redis.call("ZADD", KEYS[4], 0, A[i + 1])
      i = i + 3
    elseif op == "drop" then
      redis.call("HDEL", KEYS[3], A[i + 1])
      redis.call("ZREM", KEYS[4], A[i + 1])
      i = i + 2
    else
      redis.call("XTRIM", log, "MINID", A[i + 1])
      i = i + 2
    end
  end
  redis.call("SET", KEYS[1], A[2])
  publish(KEYS[1], string.match(A[2], "^%d+"))
  return { "done", id, text(us) }
end
register("swap", swap)
