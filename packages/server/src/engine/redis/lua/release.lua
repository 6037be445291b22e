-- KEYS   owner
-- ARGV   epoch nonce
-- Gives  { released, replid, time }, also when that ownership had ended
local function release(KEYS, A)
  local epoch, nonce, _, node = owner_of(KEYS[1])
  if epoch == A[1] and nonce == A[2] then
    redis.call("SET", KEYS[1], epoch .. " " .. nonce .. " 0 " .. node, "EX", TOMBSTONE_SECONDS)
  end
  return { "released", replid(), text(clock()) }
end
register("release", release, { "allow-oom" })
