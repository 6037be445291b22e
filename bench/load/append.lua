-- The requests of wrk: POSTs that are built once, before the clock starts, and then sent in turn. load/wrk.ts passes the number
-- of streams, the content type, a file of concatenated bodies, the size of each, and an optional token. The result is one line of
-- JSON, which load/wrk.ts reads.

local requests = {}
local turn = 0

function init(args)
  local streams, content_type, body_file, body_bytes = tonumber(args[1]), args[2], args[3], tonumber(args[4])
  local headers = { ["Content-Type"] = content_type }
  if args[5] then headers["Authorization"] = "Bearer " .. args[5] end
  local file = assert(io.open(body_file, "rb"))
  while true do
    local body = file:read(body_bytes)
    if not body then break end
    local path = "/v1/stream/bench/" .. (#requests % streams)
    requests[#requests + 1] = wrk.format("POST", path, headers, body)
  end
  file:close()
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"micros":%d,"refused":%d,"broken":%d,"p50Micros":%d,"p99Micros":%d}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)
  ))
end
