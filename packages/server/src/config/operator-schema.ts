/** The settings of what stands around the server: Redis, auth, CORS, logs. A part of the schema. */

import { z } from "zod";
import { AUTH_DEFAULTS } from "../auth/options.ts";
import { CORS_DEFAULTS } from "../doors/http/cors.ts";
import { DEFAULT_PREFIX, REDIS_LIMITS } from "../engine/redis/options.ts";
import { LOG_LIMITS, METRIC_LIMITS } from "../observe/limits.ts";
import { CENSUS_LIMITS } from "../streams/limits.ts";
import { ownLimits } from "./channel-schema.ts";
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
} from "./setting.ts";

/** HS256 signs with 256 bits; a shorter secret can be guessed from a single token. */
const MIN_SECRET_CHARS = 32;

export const redis = {
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
  prefix: word(DEFAULT_PREFIX, "What all keys start with, for services that share one Redis."),
  commandMs: ms(REDIS_LIMITS.commandMs, "How long one command may take before its connection is given up."),
  connectMs: ms(REDIS_LIMITS.connectMs, "How long connecting to a node may take."),
  deadlineMs: ms(
    REDIS_LIMITS.deadlineMs,
    "How long a request may wait for Redis, attempts and failovers included; then it is refused with 503.",
    { max: 60_000 },
  ),
  retryMs: ms(REDIS_LIMITS.retryMs, "How long to wait before something that failed is tried again; doubled each time."),
  retryMaxMs: ms(REDIS_LIMITS.retryMaxMs, "How long to wait at most before it is tried again."),
  refusalMs: ms(REDIS_LIMITS.refusalMs, "How long the server is not ready after Redis has refused a write."),
  refreshMs: ms(REDIS_LIMITS.refreshMs, "How often the cluster is asked which master has what."),
  flyingBytes: bytes(REDIS_LIMITS.flyingBytes, "What may be on its way to one master and not answered yet."),
  waitingBytes: bytes(
    REDIS_LIMITS.waitingBytes,
    "What may wait to be sent to one master; beyond it requests are refused.",
  ),
  pollMs: ms(REDIS_LIMITS.pollMs, "How often watched streams are looked at, in case that a notification was lost."),
  pollBatch: count(REDIS_LIMITS.pollBatch, "How many of them are looked at together."),
  turnLosses: count(
    REDIS_LIMITS.turnLosses,
    "How often in a row a node may lose a stream to other nodes that write to it before it gets a turn for itself.",
  ),
  turnMs: ms(REDIS_LIMITS.turnMs, "How long such a turn lasts; all nodes should have the same.", { max: 10_000 }),
  turnLookMs: ms(REDIS_LIMITS.turnLookMs, "How often a node looks whether another's turn is over."),
  calmCommits: count(
    REDIS_LIMITS.calmCommits,
    "Commits in a row that no other node disturbed, after which a stream is committed to in the quick way again.",
  ),
  remembered: count(
    REDIS_LIMITS.remembered,
    "For how many streams it is remembered that others write to them, or that a commit was given up.",
  ),
  clockMs: ms(REDIS_LIMITS.clockMs, "How long the best estimate of the clock of Redis is believed."),
  tombstoneSeconds: seconds(
    REDIS_LIMITS.tombstoneSeconds,
    "How long Redis remembers the last offset of what was deleted, and the last owner of what has one, so that neither comes again.",
    { min: 60 },
  ),
  writerSeconds: seconds(
    REDIS_LIMITS.writerSeconds,
    "How long Redis remembers a node's last commit to a stream, so that it is recognised when it comes again.",
    { min: 60 },
  ),
};

export const access = {
  off: yesNo(false, "Lets everybody do everything, whatever keys there are.", {
    flag: "--no-auth",
    env: "SLUICE_NO_AUTH",
  }),
  clockSkewSeconds: seconds(
    AUTH_DEFAULTS.clockSkewSeconds,
    "How far the clock of whoever signs tokens may be from ours.",
    { min: 0, max: 3_600 },
  ),
  cacheTokens: count(AUTH_DEFAULTS.cacheTokens, "Verified tokens that are remembered per project."),
  jwksCacheSeconds: seconds(
    AUTH_DEFAULTS.jwksCacheSeconds,
    "How long a fetched key set is used before it is fetched again.",
  ),
  jwksStaleSeconds: seconds(
    AUTH_DEFAULTS.jwksStaleSeconds,
    "How long it is still used when it cannot be fetched again.",
    { min: 0 },
  ),
  jwksCooldownSeconds: seconds(
    AUTH_DEFAULTS.jwksCooldownSeconds,
    "The least time between two fetches, whatever tokens come.",
    { min: 0 },
  ),
  jwksTimeoutMs: ms(AUTH_DEFAULTS.jwksTimeoutMs, "How long fetching a key set may take."),
  jwksBytes: bytes(AUTH_DEFAULTS.jwksBytes, "The size of a fetched key set; a larger one is not used.", {
    max: 16 * 1_024 * 1_024,
  }),
  jwksKeys: count(AUTH_DEFAULTS.jwksKeys, "Keys in a fetched key set; one with more is not used.", { max: 10_000 }),
  tokenChars: count(AUTH_DEFAULTS.tokenChars, "The length of a token; a longer one is refused.", { max: 65_536 }),
};

const PROJECT = /^[a-zA-Z0-9_-]{1,128}$/;

/** The one name of that form which objects do not hold like any other is left out. */
export function isProjectName(name: string): boolean {
  return PROJECT.test(name) && name !== "__proto__";
}

const project = z.strictObject({
  secrets: secrets(MIN_SECRET_CHARS, "Secrets that sign tokens with HS256. The first signs, all of them verify."),
  jwks: keySet("Public keys that verify tokens (RS, PS, ES, EdDSA)."),
  issuer: optionalText("a text", "What the claim iss of a token must say, where the keys sign for other services too."),
  audience: optionalText(
    "a text",
    "What the claim aud of a token must say, where the keys sign for other services too.",
  ),
  channel: ownLimits,
});

export const projects = z.record(z.string().refine(isProjectName), project).default({});
/** What one project may have. */
export const projectShape = project.shape;

const isOrigin = (value: string): boolean =>
  value === "*" || (isAddress(value, ["http:", "https:"]) && new URL(value).origin === value);

export const cors = {
  origins: list(
    isOrigin,
    "a list of origins like https://app.example.com, or *",
    "Origins whose pages may use this server.",
  ),
  credentials: yesNo(false, "Whether those pages may send cookies; not together with the origin *."),
  maxAgeSeconds: seconds(CORS_DEFAULTS.maxAgeSeconds, "How long a browser may remember the answer to a preflight.", {
    min: 0,
  }),
};

export const log = {
  level: choice(
    ["fatal", "error", "warn", "info", "debug", "trace", "silent"],
    "info",
    "What is logged, to standard error.",
    { flag: "--log-level", operand: "LEVEL" },
  ),
  requests: yesNo(true, "Whether every request is logged, at info."),
  holdMs: ms(LOG_LIMITS.holdMs, "How long a line may wait for others, to be written with them."),
  writeChars: count(LOG_LIMITS.writeChars, "So many characters are written without waiting for more."),
  bufferChars: count(
    LOG_LIMITS.bufferChars,
    "Characters that may wait while standard error takes nothing; beyond it lines are dropped and counted.",
  ),
  closeMs: ms(LOG_LIMITS.closeMs, "How long the end of a server waits until its last lines are written.", { min: 0 }),
  faultChars: count(LOG_LIMITS.faultChars, "Characters that are written of the message and of the stack of a fault."),
  causes: count(LOG_LIMITS.causes, "Causes of a fault that are written with it.", { min: 0, max: 100 }),
};

export const metrics = {
  healthMs: ms(METRIC_LIMITS.healthMs, "How often it is looked at whether the engine takes writes, to log a change."),
  eventLoopMs: ms(METRIC_LIMITS.eventLoopMs, "How finely the delay of the event loop is measured.", { max: 1_000 }),
  countPage: count(CENSUS_LIMITS.page, "Streams counted in one step.", { max: 100_000 }),
  countPauseMs: ms(CENSUS_LIMITS.pauseMs, "The pause after each step of counting streams."),
  countKeepMs: ms(CENSUS_LIMITS.keepMs, "How long a count of streams is good for before they are counted again."),
  countKeepFactor: count(
    CENSUS_LIMITS.keepFactor,
    "A count is good for this many times what it took, where that is longer; so counting takes a small share of the time.",
  ),
};
