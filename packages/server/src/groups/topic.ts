/**
 * The topics by which members name a group: `$share/G/F`, `$shared/G/F` and `$queue/G/F`. The consume door and the admin routes
 * read them. Pure.
 *
 * Invariants: a group is (mode, G, F); `$share` and `$shared` name the same one. A group's id is the id of its entity.
 */
import { isLonger, isWellFormed } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import { isReserved } from "../core/reserved.ts";
import { isAmongShards } from "../core/shard-path.ts";
import { parseFilter, type TopicFilter } from "../core/topic.ts";

/** `share`: members get whole streams, in order. `queue`: members get single messages under leases. */
export type Mode = "share" | "queue";

export interface GroupName {
  readonly mode: Mode;
  /** G: a name without slashes or wildcards. */
  readonly group: string;
  /** F, as it was written. */
  readonly filter: string;
}

const MODES: Readonly<Record<string, Mode>> = { $share: "share", $shared: "share", $queue: "queue" };
const TOPICS = Object.keys(MODES).map((prefix) => `${prefix}/{group}/{filter}`);
const MAX_GROUP_BYTES = 256;
const MAX_FILTER_BYTES = 1_024;

/** Throws a Refusal if the text names no group. */
export function parseTopic(text: string): GroupName {
  const [prefix = "", group = "", ...levels] = text.split("/");
  const mode = Object.hasOwn(MODES, prefix) ? MODES[prefix] : undefined;
  if (mode === undefined) throw bad(`the topic must be one of ${TOPICS.join(", ")}; got ${shown(text)}`);
  return groupName(mode, group, levels.join("/"));
}

/** Throws a Refusal if there can be no such group. */
export function groupName(mode: Mode, group: string, filter: string): GroupName {
  const isName = group !== "" && !/[/+#\p{Cc}]/u.test(group) && isWellFormed(group);
  if (!isName || isLonger(group, MAX_GROUP_BYTES)) {
    throw bad(`the name of a group has 1 to ${MAX_GROUP_BYTES} bytes, and no slash, + or #; got ${shown(group)}`);
  }
  filterOf({ filter });
  return { mode, group, filter };
}

/** Throws a Refusal if the text is not a filter, or matches no stream that a group may consume. */
export function filterOf({ filter }: Pick<GroupName, "filter">): TopicFilter {
  const parsed = isWellFormed(filter) && !isLonger(filter, MAX_FILTER_BYTES) ? parseFilter(filter) : undefined;
  if (parsed === undefined) {
    throw bad(`the filter must be a path in which + and # are whole levels, # the last one; got ${shown(filter)}`);
  }
  if (isReserved(filter) || isAmongShards(filter)) {
    throw new Refusal("reserved-name", `no group consumes ${shown(filter)}; name a sharded topic, not its shards`);
  }
  return parsed;
}

/** The mode comes first and the filter last, because only the filter may hold slashes. */
export function groupId({ mode, group, filter }: GroupName): string {
  return `${mode}/${group}/${filter}`;
}

/** The group of an id that `groupId` made. */
export function groupOfId(id: string): GroupName {
  const [mode, group, ...levels] = id.split("/");
  return { mode: mode as Mode, group: group!, filter: levels.join("/") };
}

function bad(detail: string): Refusal {
  return new Refusal("bad-request", detail);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}
