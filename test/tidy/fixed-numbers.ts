/**
 * The numbers of the server that bound, size or time something and are no settings, each with why. Everything else that does is a
 * default in an object named LIMITS, BOUNDS, DEFAULTS or SETTINGS, which the schema takes over. A tidy rule compares this with
 * the code.
 */
interface Fixed {
  /** Under packages/server/src. */
  readonly where: string;
  readonly names: readonly string[];
  readonly why: string;
}

const STORED = "part of the format of what is stored: with another number it could not be read";
const WIRE = "part of the wire contract: clients rely on it on every server";
const PLATFORM = "what the platform can do";
const CODE = "names a value and bounds nothing";
const INNER = "a step inside a data structure: another number changes neither what it holds nor what it costs by much";

export const FIXED: readonly Fixed[] = [
  { where: "auth/claims.ts", names: ["READ", "WRITE", "ADMIN"], why: CODE },
  { where: "auth/claims.ts", names: ["MAX_FILTERS", "MAX_FILTER_CHARS"], why: WIRE },
  { where: "auth/recent-callers.ts", names: ["SLOTS"], why: INNER },
  { where: "channels/bodies.ts", names: ["MAX_MESSAGE_ID_BYTES"], why: WIRE },
  { where: "channels/parse.ts", names: ["MAX_CHANNEL_ID_BYTES"], why: WIRE },
  { where: "channels/kept.ts", names: ["SEGMENTS", "SLOTS"], why: STORED },
  { where: "core/bytes.ts", names: ["BASE64_PIECE"], why: INNER },
  { where: "core/shard-path.ts", names: ["MAX_SHARDS"], why: WIRE },
  { where: "engine/disk/chunk.ts", names: ["COUNT_BYTES"], why: STORED },
  { where: "engine/disk/commit-block.ts", names: ["CREATED", "DESTROYED", "REMINDED", "HEAD_AT"], why: STORED },
  { where: "engine/disk/engine.ts", names: ["CLAIMS_PER_BOOT"], why: STORED },
  { where: "engine/disk/fifo.ts", names: ["COMPACT_AT"], why: INNER },
  { where: "engine/disk/overlay.ts", names: ["KEPT_PLACES"], why: INNER },
  { where: "engine/disk/entity-state.ts", names: ["IN_STORE"], why: CODE },
  { where: "engine/table.ts", names: ["PIECE_BYTES", "UNIT_BYTES"], why: INNER },
  {
    where: "engine/disk/frame.ts",
    names: ["FORMAT_VERSION", "SEGMENT_HEADER_BYTES", "FRAME_HEADER_BYTES"],
    why: STORED,
  },
  { where: "engine/disk/head-row.ts", names: ["FIXED_BYTES", "REV_BYTES"], why: STORED },
  {
    where: "engine/disk/flipped-bit.ts",
    names: ["MAX_ASKED_BYTES"],
    why: "in a longer frame a torn write would too often pass for a changed bit",
  },
  { where: "engine/disk/keys.ts", names: ["MAX_KEY_BYTES", "U32"], why: STORED },
  { where: "engine/disk/limits.ts", names: ["KIB"], why: CODE },
  { where: "engine/disk/limits.ts", names: ["PAGE_BYTES", "CHUNK_BYTES"], why: STORED },
  { where: "engine/disk/limits.ts", names: ["MERGE_FACTOR"], why: "a ratio that chunks are joined by" },
  {
    where: "engine/disk/lmdb-store.ts",
    names: ["FIRST_MAP_BYTES"],
    why: "address space at the start; it grows by itself",
  },
  { where: "engine/disk/lock.ts", names: ["ATTEMPTS"], why: "each takes another process that died meanwhile" },
  { where: "engine/disk/lock.ts", names: ["MAX_SOCKET_PATH"], why: PLATFORM },
  { where: "engine/disk/meta.ts", names: ["BYTES"], why: STORED },
  { where: "engine/disk/record.ts", names: ["FIXED_BYTES", "HAS_ID", "HAS_KEY", "HAS_ATTRIBUTES"], why: STORED },
  { where: "engine/disk/sealed.ts", names: ["SEAL_BYTES"], why: STORED },
  { where: "engine/disk/slab.ts", names: ["PIECE_BYTES", "OWN_BYTES", "SPARE_PIECES"], why: INNER },
  { where: "engine/disk/tail-cache.ts", names: ["BLOCK_COST"], why: INNER },
  {
    where: "engine/disk/verify/layout.ts",
    names: ["HEADER_BYTES", "META_BYTES", "NODE_BYTES", "OVERFLOW_BYTES", "VERSION", "U32"],
    why: STORED,
  },
  { where: "engine/disk/verify/layout.ts", names: ["BRANCH", "LEAF", "OVERFLOW", "META", "LARGE"], why: STORED },
  {
    where: "engine/disk/verify/metas.ts",
    names: ["MAX_UNWRITTEN_PAGES"],
    why: "more pages than LMDB gives one transaction",
  },
  { where: "engine/disk/verify/page-file.ts", names: ["RUN_PAGES", "GAP_PAGES"], why: INNER },
  { where: "engine/disk/verify/page-file.ts", names: ["UNKNOWN", "USED", "FREE"], why: CODE },
  {
    where: "engine/disk/background-check.ts",
    names: ["STEP_BYTES", "BEHIND_FACTOR"],
    why: "how finely the check is paced; how fast it goes is a setting",
  },
  {
    where: "engine/disk/verify/store-check.ts",
    names: ["META_ATTEMPTS"],
    why: "looks at a meta that LMDB may be writing; each takes another commit in the same moment",
  },
  { where: "engine/disk/verify/store-check.ts", names: ["RUN_PAGES"], why: INNER },
  { where: "engine/disk/verify/path-guard.ts", names: ["MAX_READ_PAGES"], why: INNER },
  { where: "engine/disk/verify/verify-store.ts", names: ["MAX_TOLD"], why: "how many of many damages are listed" },
  { where: "engine/draft.ts", names: ["MESSAGE_BYTES"], why: "what a message costs beside its payload, estimated" },
  { where: "engine/expiring-map.ts", names: ["FIRST_SWEEP"], why: INNER },
  { where: "engine/ownership.ts", names: ["NONCE_BYTES"], why: STORED },
  { where: "engine/redis/keys.ts", names: ["BUCKETS"], why: STORED },
  { where: "engine/redis/node.ts", names: ["MAX_ANSWERED"], why: INNER },
  { where: "engine/redis/resp.ts", names: ["FRAME_BYTES", "MAX_BYTES_PER_UNIT", "CR"], why: CODE },
  { where: "observe/http-meter.ts", names: ["OTHER_METHOD", "CLASSES"], why: CODE },
  { where: "observe/http-meter.ts", names: ["MAX_ROUTES"], why: "more than there are routes; it is a safety net" },
  { where: "engine/redis/keys.ts", names: ["BUCKETS"], why: STORED },
  { where: "engine/redis/node.ts", names: ["MAX_ANSWERED"], why: INNER },
  {
    where: "engine/redis/resp.ts",
    names: ["FRAME_BYTES", "MAX_BYTES_PER_UNIT", "CR"],
    why: "the wire format of Redis says so",
  },
  { where: "observe/registry.ts", names: ["MAX_LABEL_SETS"], why: "more than our metrics have; it is a safety net" },
  { where: "observe/stderr.ts", names: ["STDERR"], why: CODE },
  { where: "observe/traces.ts", names: ["MAX_TRACESTATE_CHARS"], why: "the standard of trace contexts says so" },
  { where: "real-world.ts", names: ["MAX_DELAY_MS"], why: PLATFORM },
  { where: "streams/cursor.ts", names: ["INTERVAL_MS", "MAX_JITTER_MS"], why: WIRE },
  {
    where: "streams/parse.ts",
    names: [
      "MAX_PATH_BYTES",
      "MAX_CONTENT_TYPE_CHARS",
      "MAX_ID_BYTES",
      "MAX_SEQ_CHARS",
      "MAX_KEY_BYTES",
      "MAX_ATTRIBUTES_BYTES",
      "MAX_TTL_SECONDS",
    ],
    why: WIRE,
  },
  { where: "streams/retention.ts", names: ["MARKS_PER_LIMIT", "MAX_MARKS"], why: STORED },
  { where: "streams/sharded.ts", names: ["ROUTINGS"], why: "each takes a topic that lost the same shard meanwhile" },
  { where: "streams/state.ts", names: ["SLIDE_PART"], why: "a ratio: how much a stored end may lag behind" },
  { where: "wakes/bodies.ts", names: ["MAX_NAME_BYTES", "MAX_DESCRIPTION_BYTES"], why: WIRE },
  { where: "wakes/keys.ts", names: ["SEED_BYTES", "KID_BYTES"], why: STORED },
  { where: "wakes/routes.ts", names: ["MAX_BASE_CHARS"], why: WIRE },
  { where: "wakes/rules.ts", names: ["JITTER_PART"], why: "a ratio of settings" },
  { where: "wakes/service.ts", names: ["INCARNATION_BYTES"], why: STORED },
  { where: "sessions/fanout.ts", names: ["NAME_BYTES"], why: STORED },
  { where: "wakes/targets.ts", names: ["MAX_URL_CHARS"], why: WIRE },
  { where: "wakes/tokens.ts", names: ["MAX_TOKEN_CHARS"], why: "longer than any token that we make" },
  { where: "wakes/waking.ts", names: ["WAKE_ID_BYTES", "SECRET_BYTES"], why: WIRE },
];
