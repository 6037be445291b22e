/**
 * The patterns of wake subscriptions: levels between slashes, `*` for exactly one level, `**` for any number of levels
 * including none, `%2A` for a literal star. Used by parsing and linking; the index matches many patterns at once.
 *
 * Invariants: matching costs at most levels of the pattern times levels of the path, and agrees with
 * `core/topic-index.ts`. `*` does not match `$shard`, because the shards of `a` lie two levels
 * below it, and a client that may follow that level may lack access to `a`.
 */
import { SHARD_LEVEL } from "../core/shard-path.ts";
import type { PatternLevels } from "../core/topic-index.ts";

const ONE = "*";
const ANY = "**";

export interface Glob {
  readonly text: string;
  readonly levels: PatternLevels;
  /** Every matching path starts with it. */
  readonly literalPrefix: string;
}

/** Undefined if a star shares its level with other characters, because such a pattern would silently match nothing. */
export function parseGlob(text: string): Glob | undefined {
  if (text === "") return undefined;
  const written = text.split("/");
  if (written.some((level) => level.includes("*") && level !== ONE && level !== ANY)) return undefined;
  const wild = written.findIndex(isWild);
  const literal = (wild < 0 ? written : written.slice(0, wild)).map(unescaped);
  const literalPrefix = prefixOf(written, wild, literal.join("/"));
  return { text, levels: written.map(asLevel), literalPrefix };
}

/** `a/**` matches `a` itself, so the slash belongs to the prefix only if some level must follow. */
function prefixOf(written: readonly string[], wild: number, literal: string): string {
  if (wild <= 0) return wild === 0 ? "" : literal;
  return written.slice(wild).some((level) => level !== ANY) ? `${literal}/` : literal;
}

function isWild(level: string): boolean {
  return level === ONE || level === ANY;
}

function unescaped(level: string): string {
  return level.replaceAll(/%2A/gi, "*");
}

/** Literal levels get a marker in front, so that an escaped star is not taken for a wildcard. */
function asLevel(level: string): string {
  return isWild(level) ? level : `=${unescaped(level)}`;
}

/** Backtracks only to the last `**`, because an earlier one can always leave its levels to the later one. */
export function matchesGlob({ levels }: Glob, path: string): boolean {
  const parts = path.split("/");
  let at = 0;
  let part = 0;
  let lastAny = -1;
  let resumeAt = 0;
  while (part < parts.length) {
    const level = levels[at];
    if (level === ANY) {
      lastAny = at++;
      resumeAt = part;
    } else if ((level === ONE && parts[part] !== SHARD_LEVEL) || level === `=${parts[part]}`) {
      at++;
      part++;
    } else if (lastAny >= 0) {
      at = lastAny + 1;
      part = ++resumeAt;
    } else return false;
  }
  while (levels[at] === ANY) at++;
  return at === levels.length;
}
