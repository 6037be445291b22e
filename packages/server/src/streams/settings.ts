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
    pageBytes: bytes(STREAM_LIMITS.pageBytes, "What one read answers at most, unless a single message is larger."),
    holdBytes: bytes(
      STREAM_LIMITS.holdBytes,
      "How much of a stream may be kept, over its retention, for forks and subscribers that still need it.",
    ),
  }),
  list: settingGroup("Listing streams", LIST_LIMITS, {
    streams: count(LIST_LIMITS.streams, "Streams on one page of a listing at most.", { max: 100_000 }),
  }),
  tail: settingGroup("Readers that wait at the tail of a stream or channel", tailLimits, {
    readers: count(
      TAIL_LIMITS.readers,
      "Long-polls and SSE connections open at once, in all projects together; beyond it they are refused. See projectSharePercent.",
    ),
    sseMs: ms(TAIL_LIMITS.sseMs, "An SSE connection is ended after this time, so that balancers can move it."),
    slowReaderBytes: bytes(
      TAIL_LIMITS.slowReaderBytes,
      "What may wait for a reader that does not read; beyond it the reader is cut off and can resume.",
    ),
    heartbeatMs: ms(
      TAIL_LIMITS.heartbeatMs,
      "How often an SSE connection gets a comment, so that no proxy takes a quiet one for dead.",
    ),
  }),
  census: settingGroup("Counting streams", CENSUS_LIMITS, {}),
};
