/**
 * The paths that streams may have, through any door. `Streams` checks the path of every request here before it runs a rule.
 *
 * Invariants: no stream is created at a path that is refused here. Streams stored before a rule existed stay readable and
 * deletable.
 */
import { isLonger, isWellFormed } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { refuseReserved } from "../core/reserved.ts";
import { isAmongShards, SHARD_LEVEL, shardPath } from "../core/shard-path.ts";

export const MAX_PATH_BYTES = 1_024;

/**
 * A level that is `.` or `..`. Clients resolve it before they send a request, so no client could address such a stream.
 */
const DOTS = /(^|\/)\.\.?(\/|$)/;
/** Whitespace and control characters break listings, logs and headers; `+` and `#` are wildcards of topic filters. */
const NOT_IN_NEW_PATHS = /[\p{White_Space}\p{Cc}+#]/u;

/** Throws a Refusal for a path that no stream can have. */
export function checkPath(path: string): string {
  if (path === "") throw new Refusal("bad-path", "the path is empty; a stream needs a path of at least one character");
  if (isLonger(path, MAX_PATH_BYTES)) {
    throw new Refusal("bad-path", `the path must have at most ${MAX_PATH_BYTES} bytes`);
  }
  if (hasControlCharacter(path)) throw new Refusal("bad-path", "the path must not contain control characters");
  if (path.includes(".") && DOTS.test(path)) {
    throw new Refusal(
      "bad-path",
      `the path ${path} has a level of dots, which clients resolve; use another name for that level`,
    );
  }
  return path;
}

function hasControlCharacter(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}

/** Throws a Refusal for a path at which no stream may be created. `shards` is given for a topic. */
export function checkNewPath(path: string, shards: number | undefined): void {
  checkPath(path);
  refuseReserved(path);
  refuseAmongShards(path);
  if (!isWellFormed(path)) {
    throw new Refusal("bad-path", "the path must be valid UTF-8; it contains a lone surrogate");
  }
  if (NOT_IN_NEW_PATHS.test(path)) {
    const shown = JSON.stringify(path);
    throw new Refusal("bad-path", `a new path must not contain whitespace, control characters, + or #; got ${shown}`);
  }
  if (shards === undefined) return;
  const longest = shardPath(path, shards - 1);
  if (isLonger(longest, MAX_PATH_BYTES)) {
    const tail = longest.slice(path.length);
    throw new Refusal(
      "bad-path",
      `the path leaves no room for its shards: ${MAX_PATH_BYTES} bytes with ${tail} at its end`,
    );
  }
}

/** Throws a Refusal for a shard's path, because shards are created and deleted only with their topic. */
export function refuseAmongShards(path: string): void {
  if (!isAmongShards(path)) return;
  const detail = `paths with the level ${SHARD_LEVEL} are reserved for the shards of topics, which are created and deleted with their topic`;
  throw new Refusal("reserved-name", detail);
}
