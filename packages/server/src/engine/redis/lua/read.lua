-- A page of the log.
--
-- KEYS   head log
-- ARGV   generation and seq of the position to read after, maxBytes, maxMessages
-- Gives  { page, replid, time, head, 0, whether the head is of another history, entries, whether there is more }
local function read(KEYS, A)
  local h, id = head_of(KEYS[1]), replid()
  local max_bytes, max_messages = tonumber(A[3]), tonumber(A[4])
  local from, found, bytes, more = "(" .. A[1] .. "-" .. A[2], {}, 0, 0
  -- A few first, then more of them: entries beyond the page may be large, and reading them holds up all other clients.
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
register("read", read, { "no-writes" })
