-- Counts a hit in a fixed window, by this master's clock.
--
-- KEYS   window
-- ARGV   limit windowMs
-- Gives  { allowed, replid, time, remaining } or { limited, replid, time, ms left }
local function hit(KEYS, A)
  local function answer(kind, count) return { kind, replid(), text(clock()), text(count) } end
  local limit, hits, left = tonumber(A[1]), tonumber(redis.call("GET", KEYS[1]) or "0"), redis.call("PTTL", KEYS[1])
  -- A window cannot end later than a whole one from now, unless this master's clock was set back.
  if left < 0 or left > tonumber(A[2]) then
    hits, left = 0, tonumber(A[2])
    redis.call("SET", KEYS[1], 0, "PX", A[2])
  end
  if hits >= limit then return answer("limited", math.min(left + 1, tonumber(A[2]))) end
  redis.call("INCR", KEYS[1])
  return answer("allowed", limit - hits - 1)
end
register("hit", hit, { "allow-oom" })
