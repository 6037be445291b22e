/** `sluice stream create`: creates a stream, or confirms one with the same configuration. */
import type { CreateOptions } from "@sluice/client";
import type { Command } from "commander";
import { parseTime } from "../../core/rfc3339.ts";
import { MAX_SHARDS } from "../../core/shard-path.ts";
import { parseCount, parseSeconds } from "../duration.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { harmless, line } from "../terminal.ts";
import { isOffset, OFFSET_FORM } from "./messages.ts";

interface Options extends RemoteOptions {
  readonly type?: string;
  readonly ttl?: string;
  readonly expiresAt?: string;
  readonly maxMessages?: string;
  readonly maxBytes?: string;
  readonly maxAge?: string;
  readonly shards?: string;
  readonly forkFrom?: string;
  readonly forkOffset?: string;
  readonly closed?: boolean;
}

const DEFAULT_TYPE = "application/octet-stream";

export function addCreate(group: Command): void {
  const command = group
    .command("create")
    .description("create a stream")
    .argument("<path>", "the path of the stream, like chat/room1")
    .option("-t, --type <TYPE>", "the content type of its messages (default: application/octet-stream)")
    .option("--ttl <TIME>", "the stream expires after this time without use, like 1h or 7d")
    .option("--expires-at <TIME>", "the stream expires at this time, like 2030-01-01T00:00:00Z")
    .option("--max-messages <N>", "keep at least the last N messages")
    .option("--max-bytes <N>", "keep at least the last N bytes")
    .option("--max-age <TIME>", "keep messages at least this long, like 7d")
    .option("--shards <N>", "make it a topic of N streams behind one path, 1 to 256")
    .option("--fork-from <PATH>", "branch off another stream of the project")
    .option("--fork-offset <OFFSET>", "where to branch off (default: at its end)")
    .option("--closed", "create it closed")
    .action(create);
  addRemoteOptions(command);
  examples(command, [
    ["sluice stream create chat/room1 --type application/json", "a stream of JSON messages"],
    ["sluice stream create log/app --type text/plain --max-age 7d", "text, kept for a week"],
    ["sluice stream create orders --shards 8", "a topic of 8 shards; appends go by key"],
    ["sluice stream create chat/draft --fork-from chat/room1", "a branch of another stream"],
  ]);
}

async function create(path: string, options: Options): Promise<void> {
  checkTogether(options);
  const { type, forkFrom, forkOffset } = options;
  const remote = remoteOf(options);
  const forkOf = forkFrom === undefined ? undefined : { path: remote.stream(forkFrom).path, offset: forkOffset };
  const stream = remote.stream(path, { contentType: type ?? (forkOf ? undefined : DEFAULT_TYPE) });
  const { created, contentType } = await stream.create({ ...createOptions(options), forkOf });
  await line(`${created ? "created" : "exists"} ${harmless(path)} (${contentType})`);
}

/** Checks here what the server would refuse with the names of its headers, so that the message names the flags. */
function checkTogether({ ttl, expiresAt, forkFrom, forkOffset, shards }: Options): void {
  if (ttl !== undefined && expiresAt !== undefined) throw usage("--ttl and --expires-at exclude each other");
  if (expiresAt !== undefined) {
    const at = parseTime(expiresAt);
    if (at === undefined)
      throw usage(`--expires-at must be a time like 2030-01-01T00:00:00Z, not ${JSON.stringify(expiresAt)}`);
    if (at <= Date.now()) throw usage(`--expires-at ${expiresAt} is over already`);
  }
  if (shards !== undefined && forkFrom !== undefined) throw usage("--shards and --fork-from exclude each other");
  if (forkOffset === undefined) return;
  if (forkFrom === undefined) throw usage("--fork-offset needs --fork-from");
  if (!isOffset(forkOffset)) throw usage(`--fork-offset must be ${OFFSET_FORM}, not ${JSON.stringify(forkOffset)}`);
}

function createOptions(options: Options): CreateOptions {
  const { ttl, expiresAt, maxMessages, maxBytes, maxAge, shards, closed } = options;
  return {
    ttlSeconds: ttl === undefined ? undefined : parseSeconds("--ttl", ttl),
    expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt),
    maxMessages: maxMessages === undefined ? undefined : parseCount("--max-messages", maxMessages),
    maxBytes: maxBytes === undefined ? undefined : parseCount("--max-bytes", maxBytes, 2 ** 50),
    maxAgeSeconds: maxAge === undefined ? undefined : parseSeconds("--max-age", maxAge),
    shards: shards === undefined ? undefined : parseCount("--shards", shards, MAX_SHARDS),
    closed,
  };
}
