-- KEYS   owner
-- ARGV   node ttlMs nonce; epoch and nonce of the ownership that is to be renewed, or nothing
-- Gives  { owner, replid, time, epoch, nonce } or { held, replid, time, node, until in ms }
local function claim(KEYS, A)
  local us, id = clock(), replid()
  local now = math.floor(us / 1000)
  local epoch, nonce, till, node = owner_of(KEYS[1])
  local stands = epoch and tonumber(till) > now
  -- The new nonce is there already when this very claim is sent again.
  local is_own = stands and (nonce == A[3] or (epoch == A[4] and nonce == A[5]))
  if stands and not is_own then return { "held", id, text(us), node, till } end
  if not is_own then
    epoch = text(math.max((tonumber(epoch) or 0) + 1, now))
    nonce = A[3]
  end
  local ttl = tonumber(A[2])
  redis.call("SET", KEYS[1], epoch .. " " .. nonce .. " " .. text(now + ttl) .. " " .. A[1], "PX", text(ttl + TOMBSTONE_SECONDS * 1000))
  return { "owner", id, text(us), epoch, nonce }
end
register("claim", claim)
