/**
 * Topic filters in MQTT's notation: a path is levels between slashes, `+` matches any one level, `#` at the end matches this
 * level and everything below it. Services and auth match paths against them. Pure.
 */
export interface TopicFilter {
  readonly levels: readonly string[];
  /** The common prefix of all matching paths. */
  readonly literalPrefix: string;
}

/** Undefined if the text is not a filter: a wildcard must be alone in its level, and `#` only in the last one. */
export function parseFilter(text: string): TopicFilter | undefined {
  if (text === "") return undefined;
  const levels = text.split("/");
  for (const [i, level] of levels.entries()) {
    if (level === "+" || (level === "#" && i === levels.length - 1)) continue;
    if (level.includes("+") || level.includes("#")) return undefined;
  }
  const wild = levels.findIndex((level) => level === "+" || level === "#");
  if (wild < 0) return { levels, literalPrefix: text };
  const literal = levels.slice(0, wild).join("/");
  // `a/#` matches `a` itself too, so the slash before `#` is not part of the common prefix.
  const isOpenEnd = levels[wild] === "#" || literal === "";
  return { levels, literalPrefix: isOpenEnd ? literal : `${literal}/` };
}

export function filterText({ levels }: TopicFilter): string {
  return levels.join("/");
}

export function matchesFilter({ levels }: TopicFilter, path: string): boolean {
  const parts = path.split("/");
  for (const [i, level] of levels.entries()) {
    if (level === "#") return true;
    if (i >= parts.length) return false;
    if (level !== "+" && level !== parts[i]) return false;
    if (i === levels.length - 2 && levels[i + 1] === "#" && parts.length === i + 1) return true;
  }
  return parts.length === levels.length;
}

/** Whether the filter matches every path that the pattern matches. The levels of the pattern are those of `StreamPattern`. */
export function coversPattern({ levels }: TopicFilter, pattern: readonly string[]): boolean {
  for (const [i, level] of levels.entries()) {
    // Up to here each level of the pattern matches exactly one level of a path.
    if (level === "#") return true;
    const wanted = pattern[i];
    if (wanted === undefined || wanted === "**") return false;
    if (level !== "+" && wanted !== `=${level}`) return false;
  }
  return pattern.length === levels.length;
}
