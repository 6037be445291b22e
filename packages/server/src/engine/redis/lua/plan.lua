-- What the effects of a commit make of the head, and the writes that they take. Only commit.lua calls it. Registers nothing.
--
-- Effects, one after the other from A[i] on:
--   begin generation atGeneration atSeq | append count at payload* | append-each count (payload at n n*word)*
--   | put name value | drop name | trim generation seq bytes | remind at-or-nothing | destroy
-- Gives  the writes, as arguments of redis.call, and whether the entity is destroyed; or nil and why they cannot be made. Nil
--        without a reason is a conflict: the generation was used since the caller looked.
-- Invariants: writes nothing to Redis; changes h in place.
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
