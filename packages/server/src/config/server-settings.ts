/** The settings of the parts around the features: engines, the HTTP door, auth, CORS, logs. Part of the schema. */
import { z } from "zod";
import { AUTH_DEFAULTS } from "../auth/options.ts";
import { ownChannelLimits } from "../channels/settings.ts";
import { isProjectName } from "../core/project.ts";
import {
  bytes,
  choice,
  count,
  isAddress,
  keySet,
  list,
  ms,
  optionalText,
  seconds,
  secrets,
  word,
  yesNo,
} from "../core/setting.ts";
import { settingGroup } from "../core/setting-group.ts";
import { GRPC_LIMITS } from "../doors/grpc/defaults.ts";
import { CORS_DEFAULTS } from "../doors/http/cors.ts";
import { HTTP_LIMITS } from "../doors/http/defaults.ts";
import { TLS_LIMITS } from "../doors/tls/defaults.ts";
import { ENGINE_BOUNDS } from "../engine/bounds.ts";
import { DEFAULT_LIMITS as DISK } from "../engine/disk/defaults.ts";
import { KEEPER_LIMITS, MAX_KEEPERS } from "../engine/keeper.ts";
import { DEFAULT_PREFIX, REDIS_LIMITS } from "../engine/redis/options.ts";
import { SWEEP_LIMITS } from "../engine/sweeper.ts";
import { LOG_LIMITS, METRIC_LIMITS } from "../observe/defaults.ts";

/** HS256 signs with 256 bits; a shorter secret can be guessed from a single token. */
const MIN_SECRET_CHARS = 32;

const { pageMessages: _, windows: __, claims: ___, ...diskLimits } = { ...ENGINE_BOUNDS, ...DISK };
const { pageMessages: ____, ...redisLimits } = { ...ENGINE_BOUNDS, ...REDIS_LIMITS };

const isOrigin = (value: string): boolean =>
  value === "*" || (isAddress(value, ["http:", "https:"]) && new URL(value).origin === value);

const isHostName = (value: string): boolean => /^(\*\.)?[a-z\d_-]+(\.[a-z\d_-]+)*$/i.test(value) && value.length <= 253;

export const operatorSettings = {
  redis: settingGroup("Redis Cluster as the engine", redisLimits, {
    urls: list(
      (url) => isAddress(url, ["redis:", "rediss:"]),
      "a list of addresses like redis://HOST:PORT",
      "Nodes of the Redis Cluster, or the one Redis, that holds the data instead of a directory.",
      { flag: "--redis", operand: "URL[,URL...]", env: "SLUICE_REDIS", secrecy: "address" },
    ),
    waitReplicas: count(
      REDIS_LIMITS.waitReplicas,
      "Replicas that must have a write before it is acknowledged.",
      { min: 0, max: 100 },
      { flag: "--redis-wait-replicas" },
    ),
    prefix: word(DEFAULT_PREFIX, "The start of all keys, for services that share one Redis."),
    commandMs: ms(REDIS_LIMITS.commandMs, "How long one command may take before the server closes its connection."),
    deadlineMs: ms(
      REDIS_LIMITS.deadlineMs,
      "How long a request may wait for Redis, retries and failovers included; then it gets 503.",
      { max: 60_000 },
    ),
  }),
  auth: settingGroup("Authentication and authorization", AUTH_DEFAULTS, {
    off: yesNo(false, "Lets every caller do everything, whatever keys there are.", {
      flag: "--no-auth",
      env: "SLUICE_NO_AUTH",
    }),
    clockSkewSeconds: seconds(
      AUTH_DEFAULTS.clockSkewSeconds,
      "How far the clock of the program that signs tokens may be from the server's.",
      { min: 0, max: 3_600 },
    ),
    jwksCacheSeconds: seconds(
      AUTH_DEFAULTS.jwksCacheSeconds,
      "How long a fetched key set is used before it is fetched again.",
    ),
  }),
};

const project = z.strictObject({
  secrets: secrets(MIN_SECRET_CHARS, "Secrets that sign tokens with HS256. The first signs, all of them verify."),
  jwks: keySet("Public keys that verify tokens (RS, PS, ES, EdDSA)."),
  issuer: optionalText("a text", "The required claim iss of a token. Set it if the keys sign for other services too."),
  audience: optionalText(
    "a text",
    "The required claim aud of a token. Set it if the keys sign for other services too.",
  ),
  channel: ownChannelLimits,
});

export const projects = z.record(z.string().refine(isProjectName), project).default({});
/** The settings of one project. */
export const projectShape = project.shape;

export const doorSettings = {
  tls: settingGroup("TLS", TLS_LIMITS, {
    cert: optionalText(
      "the path of a file",
      "The certificate of the server in PEM, followed by its intermediate certificates. With it, HTTP, WebSockets and gRPC use TLS only. The server reads a renewed file within seconds.",
      { flag: "--tls-cert", operand: "FILE" },
    ),
    key: optionalText("the path of a file", "The private key of that certificate in PEM, without a passphrase.", {
      flag: "--tls-key",
      operand: "FILE",
    }),
  }),
  cors: settingGroup("Browsers of other origins", CORS_DEFAULTS, {
    origins: list(
      isOrigin,
      "a list of origins like https://app.example.com, or *",
      "Origins whose pages may use this server.",
    ),
    credentials: yesNo(false, "Whether those pages may send cookies; not together with the origin *."),
  }),
  log: settingGroup("Logs", LOG_LIMITS, {
    level: choice(
      ["fatal", "error", "warn", "info", "debug", "trace", "silent"],
      "info",
      "The least level that is logged, to standard error.",
      { flag: "--log-level", operand: "LEVEL" },
    ),
    format: choice(
      ["auto", "json", "pretty"],
      "auto",
      "The format of lines: json or pretty; auto is pretty on a terminal, else json.",
    ),
    requests: yesNo(true, "Whether every request is logged, at info."),
  }),
  metrics: settingGroup("Metrics", METRIC_LIMITS, {}),
  grpc: settingGroup("gRPC connections", GRPC_LIMITS, {}),
  http: settingGroup("HTTP connections", HTTP_LIMITS, {
    hosts: list(
      isHostName,
      "a list of host names like streams.example.com, or *.example.com for every name below",
      "Names that requests may carry in Host. Empty: any name, except on a loopback listener without keys. localhost, IP addresses and the name in publicUrl always pass.",
    ),
    connections: count(
      HTTP_LIMITS.connections,
      "Connections at a time, as far as the limit of open files allows; beyond it they get 503.",
    ),
    lane: yesNo(HTTP_LIMITS.lane, "Whether the server's own parser answers plain requests; it is faster than Node's."),
    compress: yesNo(
      HTTP_LIMITS.compress,
      "Whether large answers are compressed, by zstd (from Node 22.15 on) or gzip, for clients that ask for it. Live reads never are.",
    ),
    requestMs: ms(HTTP_LIMITS.requestMs, "A request must have arrived whole within this time."),
    keepAliveMs: ms(HTTP_LIMITS.keepAliveMs, "How long a connection may wait for its next request."),
    stallMs: ms(
      HTTP_LIMITS.stallMs,
      "How long a client may read nothing of its answer before the server closes the connection; SSE has tail.slowReaderBytes instead.",
    ),
    memoryBytes: bytes(
      HTTP_LIMITS.memoryBytes,
      "Request bodies and unsent answers in memory, of all connections together; beyond it requests get 503. " +
        "The last eighth is for small ones. At least twice stream.bodyBytes.",
      { min: 65_536 },
    ),
    headerBytes: bytes(HTTP_LIMITS.headerBytes, "The request line and the headers of a request together.", {
      min: 1_024,
      max: 1_048_576,
    }),
  }),
};

export const engineSettings = {
  keeper: settingGroup(
    "State in memory",
    { ...KEEPER_LIMITS, kept: MAX_KEEPERS },
    {
      kept: count(MAX_KEEPERS, "Streams and subscriptions whose state stays in memory when idle.", { min: 10 }),
      queuedInputs: count(KEEPER_LIMITS.queuedInputs, "Requests that may wait for one stream; beyond it they get 503."),
    },
  ),
  sweep: settingGroup("Background work", SWEEP_LIMITS, {}),
  engine: settingGroup("Every engine", ENGINE_BOUNDS, {}),
  disk: settingGroup("The engine on disk", diskLimits, {
    tailBytes: bytes(DISK.tailBytes, "Recent messages kept in memory for readers.", { min: 0 }),
    lagBytes: bytes(
      DISK.lagBytes,
      "Bytes that may be in the journal and not yet in the store; beyond it writes wait. A start after a crash replays at most this.",
    ),
    checkRateBytes: bytes(
      DISK.checkRateBytes,
      "Bytes of the store that are checked for damage in a second after a start; a tenth of it while writes wait.",
    ),
  }),
};
