/**
 * Every setting of the server, once: its name, what it may be, its default and what it means. File, environment, flags and
 * `createServer` are checked against it; `config docs` and the reference are made from it.
 *
 * What must stay true: a default is the constant of the part that it belongs to, so that it exists once. Sizes and times carry
 * their unit in the name. What the wire contract or the format on disk fixes is no setting.
 */
import { z } from "zod";
import { HTTP_LIMITS } from "../doors/http/limits.ts";
import { WEBHOOK_LIMITS } from "../doors/webhook/node-webhook.ts";
import { ENGINE_BOUNDS } from "../engine/bounds.ts";
import { DEFAULT_LIMITS as DISK } from "../engine/disk/limits.ts";
import { KEEPER_LIMITS, MAX_KEEPERS } from "../engine/keeper.ts";
import { SWEEP_LIMITS } from "../engine/sweeper.ts";
import { SESSION_LIMITS } from "../sessions/limits.ts";
import { LIST_LIMITS, STREAM_LIMITS, TAIL_LIMITS } from "../streams/limits.ts";
import { KEY_SETTINGS } from "../wakes/keys.ts";
import { channel } from "./channel-schema.ts";
import { access, cors, log, metrics, projects, redis } from "./operator-schema.ts";
import { fanout, session } from "./session-schema.ts";
import { bytes, choice, count, ms, origin, port, portOrOff, seconds, text, yesNo } from "./setting.ts";
import { wake } from "./wake-schema.ts";

const group = <S extends z.ZodRawShape>(shape: S) => z.strictObject(shape).prefault({} as never);

const http = {
  requestMs: ms(HTTP_LIMITS.requestMs, "A request must have arrived whole within this time."),
  headersMs: ms(HTTP_LIMITS.headersMs, "The headers of a request must have arrived within this time."),
  keepAliveMs: ms(HTTP_LIMITS.keepAliveMs, "How long a connection may wait for its next request."),
  lingerMs: ms(HTTP_LIMITS.lingerMs, "How long a client that is hung up on may take to read why."),
  checkMs: ms(HTTP_LIMITS.checkMs, "How late a request that takes too long may be found."),
  headerBytes: bytes(HTTP_LIMITS.headerBytes, "The request line and the headers of a request together.", {
    min: 1_024,
    max: 1_048_576,
  }),
};

const stream = {
  bodyBytes: bytes(STREAM_LIMITS.bodyBytes, "The largest body of one request."),
  bodyMessages: count(STREAM_LIMITS.bodyMessages, "The most messages in the JSON array of one request."),
  pageBytes: bytes(STREAM_LIMITS.pageBytes, "What one read answers at most, unless a single message is larger."),
  holdBytes: bytes(
    STREAM_LIMITS.holdBytes,
    "How much of a stream may be kept, over its retention, for forks and subscribers that still need it.",
  ),
  holds: count(STREAM_LIMITS.holds, "The most subscribers that can hold messages of one stream."),
  forkDepth: count(STREAM_LIMITS.forkDepth, "How many forks may stand on each other.", { max: 1_000 }),
  forkCheckMs: ms(STREAM_LIMITS.forkCheckMs, "When an unfinished fork is given up; a slow one then fails.", {
    min: 1_000,
  }),
  forkRows: count(STREAM_LIMITS.forkRows, "Forks of one stream looked at in one step.", { max: 100_000 }),
  shardCheckMs: ms(
    STREAM_LIMITS.shardCheckMs,
    "When the sweep finishes making, closing or deleting a sharded topic that was cut short.",
    { min: 1_000 },
  ),
  shardTurns: count(STREAM_LIMITS.shardTurns, "Sharded topics whose turn among their shards is remembered."),
};

const list = {
  defaultStreams: count(LIST_LIMITS.defaultStreams, "Streams on one page of a listing when the request does not say."),
  streams: count(LIST_LIMITS.streams, "Streams on one page of a listing at most.", { max: 100_000 }),
  scanned: count(LIST_LIMITS.scanned, "Names looked at for one page; a filter that matches little goes on from there."),
};

const tail = {
  readers: count(TAIL_LIMITS.readers, "Long-polls and SSE connections open at once; beyond it they are refused."),
  sseMs: ms(TAIL_LIMITS.sseMs, "An SSE connection is ended after this time, so that balancers can move it."),
  slowReaderBytes: bytes(
    TAIL_LIMITS.slowReaderBytes,
    "What may wait for a reader that does not read; beyond it the reader is cut off and can resume.",
  ),
  heartbeatMs: ms(
    TAIL_LIMITS.heartbeatMs,
    "How often an SSE connection gets a comment, so that no proxy takes a quiet one for dead. Channels have their own.",
  ),
};

const keeper = {
  kept: count(MAX_KEEPERS, "Streams and subscriptions whose state is kept at hand when idle.", { min: 10 }),
  queuedInputs: count(KEEPER_LIMITS.queuedInputs, "Requests that may wait for one stream; beyond it they are refused."),
  batchInputs: count(KEEPER_LIMITS.batchInputs, "Requests to one stream that share a commit."),
  batchBytes: bytes(KEEPER_LIMITS.batchBytes, "Appended bytes of one stream that share a commit."),
  conflicts: count(KEEPER_LIMITS.conflicts, "Conflicts in a row with other writers before requests are refused."),
  rows: count(KEEPER_LIMITS.rows, "Rows of one stream or subscription that are remembered between commits."),
};

const sweep = {
  everyMs: ms(SWEEP_LIMITS.everyMs, "How often expired streams and other reminders are looked for."),
  batch: count(SWEEP_LIMITS.batch, "Reminders of one shard taken on at once."),
  rounds: count(SWEEP_LIMITS.rounds, "Such batches of one shard in one pass over all of them."),
};

const engine = {
  pageMessages: count(ENGINE_BOUNDS.pageMessages, "Messages on one page of a read, however small they are.", {
    max: 1_000_000,
  }),
  windows: count(
    ENGINE_BOUNDS.windows,
    "Channels whose rate is counted at once; beyond it publishes to others are refused. Not on Redis, which counts there.",
  ),
  claims: count(ENGINE_BOUNDS.claims, "Streams and subscriptions that have an owner at once. Not on Redis."),
};

const disk = {
  segmentBytes: bytes(DISK.segmentBytes, "The size of a journal file.", { min: 65_536, max: 2 ** 30 }),
  batchBytes: bytes(DISK.batchBytes, "What is written and flushed together at most, unless one commit is larger."),
  queueBytes: bytes(DISK.queueBytes, "What may wait for the journal; beyond it requests are refused."),
  lagBytes: bytes(DISK.lagBytes, "What may be in the journal and not yet in the store; beyond it writes wait."),
  tailBytes: bytes(DISK.tailBytes, "Recent messages kept in memory for readers.", { min: 0 }),
  spareSegments: count(DISK.spareSegments, "Journal files kept for use again.", { min: 0, max: 1_000 }),
  sealAfterMs: ms(DISK.sealAfterMs, "How long after the last write the journal is sealed."),
  applyAfterMs: ms(
    DISK.applyAfterMs,
    "How long nothing more must have come before a little work moves from the journal to the store.",
  ),
  applyWithinMs: ms(DISK.applyWithinMs, "How long a little work that keeps growing may wait for that."),
  applyBytes: bytes(DISK.applyBytes, "How much work moves to the store without waiting."),
  retryFullMs: ms(DISK.retryFullMs, "How long to wait before trying again on a full disk."),
  fullMs: ms(DISK.fullMs, "How long the disk counts as full after a write that found no room."),
  lockMs: ms(DISK.lockMs, "How long the owner of a data directory may take to say that it is alive."),
  transactionBytes: bytes(DISK.transactionBytes, "What one transaction of the store takes from the journal at most.", {
    min: 65_536,
    max: 2 ** 30,
  }),
  garbageKeys: count(DISK.garbageKeys, "Keys of deleted messages that one transaction removes.", { max: 1_000_000 }),
  busyStreams: count(DISK.busyStreams, "Streams whose end is remembered, so that adding to it needs no look-up."),
  applyNice: count(
    DISK.applyNice,
    "By how much the thread that moves work to the store is nicer than the others (Linux): it gives way to what somebody waits for.",
    { min: 0, max: 19 },
  ),
  verify: choice(
    ["all", "structure"],
    DISK.verify,
    "What a start reads to prove that nothing is damaged: everything, at about a second per GB, or all but most messages.",
  ),
};

/** Ten years; keys live longer than any timer. */
const KEY_RANGE = { min: 1_000, max: 10 * 365 * 24 * 3_600_000 };

const webhook = {
  allowLoopback: yesNo(true, "Whether webhooks may be plain http to this machine, as in development."),
  timeoutMs: ms(WEBHOOK_LIMITS.timeoutMs, "How long a webhook may take to answer."),
  answerBytes: bytes(WEBHOOK_LIMITS.answerBytes, "What is read of a webhook's answer."),
  keyMs: ms(KEY_SETTINGS.keyMs, "How old a key that signs webhooks gets.", KEY_RANGE),
  keyKeepMs: ms(KEY_SETTINGS.keyKeepMs, "How long a replaced key stays published.", KEY_RANGE),
  keyCheckMs: ms(KEY_SETTINGS.keyCheckMs, "How often the age of the keys is looked at."),
};

export const schema = z.strictObject({
  host: text("127.0.0.1", "a host name or an address of this machine", "The address to listen on.", {
    flag: "--host",
    operand: "HOST",
  }),
  port: port(4437, "The port to listen on; 0 picks a free one.", { flag: "--port" }),
  data: text(
    "./sluice-data",
    "the path of a directory",
    "Where the data lives. One server owns it; a relative path starts from where the server is started.",
    { flag: "--data", operand: "DIR" },
  ),
  memory: yesNo(false, "Keeps everything in memory, and nothing after the end.", { flag: "--memory" }),
  redis: group(redis),
  grpcPort: portOrOff("Reserved: this version opens no port for gRPC.", { flag: "--grpc-port" }),
  publicUrl: origin("Scheme, host and port under which others reach this server; links to us are made with it."),
  drainMs: ms(
    10_000,
    "How long a shutdown waits for what is in flight; then it is cut off.",
    { min: 0 },
    { flag: "--drain-ms" },
  ),
  longPollMs: ms(TAIL_LIMITS.longPollMs, "How long a long-poll waits for a message.", {}, { flag: "--long-poll-ms" }),
  sessionTtlSeconds: seconds(
    SESSION_LIMITS.ttlSeconds,
    "How long a session lives without being used.",
    {},
    { flag: "--session-ttl-seconds" },
  ),
  auth: group(access),
  projects,
  cors: group(cors),
  log: group(log),
  metrics: group(metrics),
  http: group(http),
  stream: group(stream),
  list: group(list),
  tail: group(tail),
  session: group(session),
  fanout: group(fanout),
  channel: group(channel),
  wake: group(wake),
  webhook: group(webhook),
  keeper: group(keeper),
  sweep: group(sweep),
  engine: group(engine),
  disk: group(disk),
});

/** Everything decided: what the server runs with. */
export type Settings = z.output<typeof schema>;
/** What may be given; the rest are defaults. */
export type SettingsInput = z.input<typeof schema>;

/** What the groups are about, in the order of the reference. */
export const GROUPS: Readonly<Record<string, string>> = {
  "": "The server",
  redis: "Redis Cluster as the engine",
  auth: "Who may do what",
  projects: "What projects have of their own",
  cors: "Browsers of other origins",
  log: "Logs",
  metrics: "Metrics",
  http: "HTTP connections",
  stream: "Streams",
  list: "Listing streams",
  tail: "Readers that wait at the tail of a stream or channel",
  session: "Sessions",
  fanout: "Copying to sessions",
  channel: "Channels",
  wake: "Wake subscriptions",
  webhook: "Webhooks",
  keeper: "Work on one stream at a time",
  sweep: "What time asks for",
  engine: "What every engine keeps",
  disk: "The engine on disk",
};
