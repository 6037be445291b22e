/**
 * What an inbox may hold, as pure functions over the story and the logs of the sources. The sessions scenario calls them.
 *
 * Invariants: an inbox holds, for every source, one run of its log per subscription, in the order of the subscriptions. Each
 * run has no gap and no repetition, and is complete once everything is quiet. Where retention trims before a copy, the
 * session is told.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import type { Entry } from "./source-logs.ts";
import type { Epoch, Life, Publish, Story } from "./story.ts";

/**
 * What retention may trim before it is copied, when the session is told: nothing; messages published before the subscription
 * stood, because another server trimmed them meanwhile; or any message beyond what is held for lagging sessions.
 */
export type Loss = "nothing" | "while-joining" | "anything";

interface Log {
  readonly entries: readonly Entry[];
  /** By id: the place in `entries`. */
  readonly places: ReadonlyMap<string, number>;
  /** The publish of each entry. */
  readonly publishes: readonly (Publish | undefined)[];
  /** Retention may have trimmed it, so that "from the beginning" may start anywhere. */
  readonly isCut: boolean;
  /** It was never deleted: a generation may rise, but it is the same stream. */
  readonly isOne: boolean;
  readonly loss: Loss;
}

export interface Sources {
  readonly paths: readonly string[];
  entries(path: string): readonly Entry[];
  isCut(path: string): boolean;
  loss(path: string): Loss;
}

export function check(story: Story, sources: Sources): string[] {
  const found: string[] = [];
  for (const path of sources.paths) {
    const log = logOf(story, sources, path);
    found.push(...repetitions(path, log));
    for (const life of story.lives) found.push(...checkLife(story, life, path, log));
  }
  return found;
}

function logOf({ publishes, deletions }: Story, sources: Sources, path: string): Log {
  const entries = sources.entries(path);
  const byId = new Map(publishes.flatMap((publish) => publish.ids.map((id) => [id, publish] as const)));
  return {
    entries,
    places: new Map(entries.map(({ id }, i) => [id, i])),
    publishes: entries.map(({ id }) => byId.get(id)),
    isCut: sources.isCut(path),
    isOne: !deletions.some(({ source }) => source === path),
    loss: sources.loss(path),
  };
}

function repetitions(path: string, { entries, places }: Log): string[] {
  return entries.flatMap(({ id }, i) => (places.get(id) === i ? [] : [`[source] ${path} holds ${id} twice`]));
}

function checkLife(story: Story, life: Life, path: string, log: Log): string[] {
  const epochs = life.epochs.filter(({ source }) => source === path);
  const seen = life.seen.filter(({ id }) => id.startsWith(`${path}.`));
  const found: string[] = [];
  const places: number[] = [];
  for (const { id, source } of seen) {
    const place = log.places.get(id);
    if (place === undefined) found.push(`${id} is in the inbox and not in the source`);
    else places.push(place);
    const told = source && log.entries[place ?? -1];
    if (told && (source.stream !== path || comparePositions(source.offset, told.position) !== 0)) {
      found.push(`the envelope of ${id} names another place`);
    }
  }
  if (found.length === 0 && !canBeRuns(story, life, epochs, places, log)) found.push(explain(epochs, places, log));
  found.push(...missingAfterCopies(story, life, epochs, log));
  if (epochs.length === 1) found.push(...overstated(life, path, places, log));
  return found.map((what) => `[inbox] ${life.session}/${life.generation % 1_000_000} of ${path}: ${what}`);
}

/** Whether the places are runs of the log, one for each subscription, some of them empty. */
function canBeRuns(story: Story, life: Life, epochs: readonly Epoch[], places: readonly number[], log: Log): boolean {
  let reachable = new Set([0]);
  for (const epoch of epochs) {
    const bounds = boundsOf(story, life, epoch, log);
    const next = new Set<number>();
    for (const start of reachable) {
      if (bounds.mayBeEmpty) next.add(start);
      // Copies that an inbox has trimmed came before the remaining ones.
      const isFirst = start === 0 && life.wasCut;
      for (let end = start; end < places.length; end++) {
        const place = places[end]!;
        const isFit = end === start ? isFirst || bounds.mayStart(place) : follows(places[end - 1]!, place, log, bounds);
        if (!isFit || place > bounds.last) break;
        if (bounds.mayEnd(place)) next.add(end + 1);
      }
    }
    reachable = next;
    if (reachable.size === 0) return false;
  }
  return reachable.has(places.length);
}

/** A subscription follows one stream, not the next stream of the same path. */
function follows(before: number, after: number, log: Log, { isExcused }: Bounds): boolean {
  if (after <= before || !isSameStream(log, before, after)) return false;
  for (let place = before + 1; place < after; place++) if (!isExcused(place)) return false;
  return true;
}

function isSameStream({ entries, isOne }: Log, a: number, b: number): boolean {
  return isOne || entries[a]!.position.generation === entries[b]!.position.generation;
}

interface Bounds {
  readonly mayBeEmpty: boolean;
  /** No copy lies after this place. */
  readonly last: number;
  /** It is not owed, because retention trimmed it. */
  isExcused(place: number): boolean;
  mayStart(place: number): boolean;
  mayEnd(place: number): boolean;
}

function boundsOf(story: Story, life: Life, epoch: Epoch, log: Log): Bounds {
  const { began, ended, from } = epoch;
  const { entries, publishes } = log;
  // A message acknowledged before the subscription began is absent; one published after it had begun is present.
  const acknowledged = publishes.findLastIndex((one) => one?.isAcknowledged && one.returned < began.invoked);
  const latest = firstAfter(log, began.returned);
  const isStart = (place: number): boolean => {
    if (from === undefined) return place > acknowledged;
    if (from === "beginning") return log.isCut || isFirstSince(log, place, ZERO);
    return isFirstSince(log, place, from);
  };
  const isOwed = ended === undefined && !life.isOver && epoch.isSure && !mayHaveEnded(story, epoch);
  const isCertain = (place: number): boolean => {
    if (!isOfToday(story, epoch, publishes[place])) return false;
    if (from === undefined || (from === "beginning" && log.isCut)) return place >= latest;
    return from === "beginning" || comparePositions(entries[place]!.position, from) > 0;
  };
  const isExcused = (place: number): boolean => {
    const isAfter = publishes[place] !== undefined && publishes[place].invoked > began.returned;
    if (log.loss === "nothing" || (log.loss === "while-joining" && isAfter)) return false;
    // A session that was deleted before it asked was not told.
    return !isOwed || isTold(life, epoch.source, entries[place]!);
  };
  const mayStart = (place: number): boolean => {
    if (place <= latest && isStart(place)) return true;
    return place > 0 && isExcused(place - 1) && mayStart(place - 1);
  };
  return {
    // No copy was owed; or it never came because the subscription ended, or it was trimmed with the oldest copies.
    mayBeEmpty: !isOwed || life.wasCut || !entries.some((_, place) => isCertain(place) && !isExcused(place)),
    last: ended === undefined ? entries.length - 1 : firstAfter(log, ended.returned) - 1,
    isExcused,
    mayStart,
    mayEnd: (place) => !isOwed || entries.every((_, later) => later <= place || isExcused(later)),
  };
}

/** Whether the entry was among those that the session was told it misses. */
function isTold({ missed }: Life, path: string, { position }: Entry): boolean {
  return missed.some(({ source, ...range }) => source === path && isWithin(range, position));
}

function isWithin({ after, through }: Pick<Life["missed"][number], "after" | "through">, position: Position): boolean {
  return comparePositions(after, position) < 0 && comparePositions(position, through) <= 0;
}

/** No copy may lie within a range that was reported as missing. */
function overstated({ missed }: Life, path: string, places: readonly number[], { entries }: Log): string[] {
  return missed.flatMap(({ source, ...range }) => {
    if (source !== path) return [];
    const within = entries.flatMap(({ position }, place) => (isWithin(range, position) ? [place] : []));
    const wrong = [within[0], within.at(-1)].find((place) => place !== undefined && places.includes(place));
    return wrong === undefined ? [] : [`${entries[wrong]!.id} was said to be missed, and is there`];
  });
}

/** The first message published after this moment. */
function firstAfter({ publishes }: Log, moment: number): number {
  const first = publishes.findIndex((publish) => publish !== undefined && publish.invoked > moment);
  return first < 0 ? publishes.length : first;
}

/** Whether it is the first message of its stream after a position. */
function isFirstSince(log: Log, place: number, from: Position): boolean {
  const { entries } = log;
  if (comparePositions(entries[place]!.position, from) <= 0) return false;
  if (place === 0 || !isSameStream(log, place - 1, place)) return true;
  return comparePositions(entries[place - 1]!.position, from) <= 0;
}

/** Whether it was published to the current stream of the path. */
function isOfToday({ deletions }: Story, { source }: Epoch, publish: Publish | undefined): boolean {
  return deletions.every((one) => one.source !== source || (publish !== undefined && publish.invoked > one.returned));
}

function mayHaveEnded({ deletions }: Story, { began, source }: Epoch): boolean {
  return deletions.some((one) => one.source === source && one.returned > began.invoked);
}

/** A publish whose answer said that every session has it: a later read must have seen it. */
function missingAfterCopies(story: Story, life: Life, epochs: readonly Epoch[], log: Log): string[] {
  // Messages that retention trims at once were skipped; another check covers that.
  if (life.wasCut || log.loss === "anything") return [];
  const found: string[] = [];
  // The first of each, as a later subscription may have begun further back.
  const order = new Map(life.seen.map(({ id }, i) => [id, i] as const).reverse());
  for (const publish of story.publishes) {
    if (!publish.isCopied || !log.places.has(publish.ids[0]!)) continue;
    const owed = epochs.findLast(({ began, isSure }) => isSure && began.returned < publish.invoked);
    if (owed === undefined || mayHaveEnded(story, owed)) continue;
    const read = life.reads.find(({ invoked }) => invoked > publish.returned);
    if (read === undefined || (owed.ended !== undefined && owed.ended.invoked < read.returned)) continue;
    for (const id of publish.ids) {
      const at = order.get(id);
      if (at === undefined || at >= read.count) found.push(`${id} was said to be copied, and was not there`);
    }
  }
  return found;
}

function explain(epochs: readonly Epoch[], places: readonly number[], { entries }: Log): string {
  const shown = epochs.map(
    ({ began, ended, from, isSure }) =>
      `[${began.invoked}-${began.returned}${from ? ` from ${typeof from === "string" ? from : from.seq}` : ""}${isSure ? "" : "?"} to ${ended ? `${ended.invoked}-${ended.returned}` : "now"}]`,
  );
  const ids = places.map((place) => `${place}:${entries[place]!.id}`);
  return `subscribed ${shown.join(" ")}, of ${entries.length} it has ${ids.join(" ")}`;
}
