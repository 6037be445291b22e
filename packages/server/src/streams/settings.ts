/**
 * The settings of streams: request sizes, listing, and readers that wait at the tail. Read by the configuration schema.
 */
import { bytes, count, ms } from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { CENSUS_LIMITS, LIST_LIMITS, STREAM_LIMITS, TAIL_LIMITS } from "./defaults.ts";

const { longPollMs: _, ...tailLimits } = TAIL_LIMITS;

export const streamSettings = {
  stream: settingGroup("Streams", STREAM_LIMITS, {
    bodyBytes: bytes(STREAM_LIMITS.bodyBytes, "The largest body of one request."),
    bodyMessages: count(STREAM_LIMITS.bodyMessages, "The most messages in the JSON array of one request."),
    pageBytes: bytes(STREAM_LIMITS.pageBytes, "The most bytes of one page, unless a single message is larger."),
    holdBytes: bytes(
      STREAM_LIMITS.holdBytes,
      "Bytes that a stream keeps beyond its retention, for forks and subscribers that still need them.",
    ),
  }),
  list: settingGroup("Listing streams", LIST_LIMITS, {
    streams: count(LIST_LIMITS.streams, "Streams on one page of a listing at most.", { max: 100_000 }),
  }),
  tail: settingGroup("Readers that wait at the tail of a stream or channel", tailLimits, {
    readers: count(
      TAIL_LIMITS.readers,
      "Long-polls, SSE connections and WebSockets open at once, in all projects together; beyond it they get 503. See projectSharePercent.",
    ),
    sseMs: ms(TAIL_LIMITS.sseMs, "The server ends an SSE connection after this time, so that balancers can move it."),
    slowReaderBytes: bytes(
      TAIL_LIMITS.slowReaderBytes,
      "Bytes that may wait for a slow reader; beyond it the server ends the connection and the reader can resume.",
    ),
    heartbeatMs: ms(
      TAIL_LIMITS.heartbeatMs,
      "How often an SSE connection gets a comment, so that proxies keep quiet connections.",
    ),
  }),
  census: settingGroup("Counting streams", CENSUS_LIMITS, {}),
};
