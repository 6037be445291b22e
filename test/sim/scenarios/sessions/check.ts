/**
 * What an inbox may hold: of every source, one run of its log per subscription, in the order of the subscriptions, each without a
 * gap or a repetition, from where it began to where it ended; and everything, once all is quiet. Plain functions over the story
 * and the logs of the sources.
 */
import { comparePositions, type Position, ZERO } from "@sluice/protocol";
import type { Entry } from "./source-logs.ts";
import type { Epoch, Life, Publish, Story } from "./story.ts";

interface Log {
  readonly entries: readonly Entry[];
  /** By id: the place in `entries`. */
  readonly places: ReadonlyMap<string, number>;
  /** The publish of each entry. */
  readonly publishes: readonly (Publish | undefined)[];
  /** Retention may have cut it, so that "from the beginning" is from anywhere. */
  readonly isCut: boolean;
}

export interface Sources {
  readonly paths: readonly string[];
  entries(path: string): readonly Entry[];
  isCut(path: string): boolean;
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

function logOf({ publishes }: Story, sources: Sources, path: string): Log {
  const entries = sources.entries(path);
  const byId = new Map(publishes.flatMap((publish) => publish.ids.map((id) => [id, publish] as const)));
  return {
    entries,
    places: new Map(entries.map(({ id }, i) => [id, i])),
    publishes: entries.map(({ id }) => byId.get(id)),
    isCut: sources.isCut(path),
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
      // What an inbox has let go of was before what is left.
      const isFirst = start === 0 && life.wasCut;
      for (let end = start; end < places.length; end++) {
        const place = places[end]!;
        const isFit = end === start ? isFirst || bounds.mayStart(place) : follows(places[end - 1]!, place, log);
        if (!isFit || place > bounds.last) break;
        if (bounds.mayEnd(place)) next.add(end + 1);
      }
    }
    reachable = next;
    if (reachable.size === 0) return false;
  }
  return reachable.has(places.length);
}

/** A subscription follows one stream, not the next of the same path. */
function follows(before: number, after: number, { entries }: Log): boolean {
  const [a, b] = [entries[before]!.position, entries[after]!.position];
  return after === before + 1 && a.generation === b.generation;
}

interface Bounds {
  readonly mayBeEmpty: boolean;
  /** No copy of what comes after this place. */
  readonly last: number;
  mayStart(place: number): boolean;
  mayEnd(place: number): boolean;
}

function boundsOf(story: Story, life: Life, epoch: Epoch, log: Log): Bounds {
  const { began, ended, from } = epoch;
  const { entries, publishes } = log;
  // What was acknowledged before it began is not there; what was published after it had begun is.
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
  return {
    // Nothing was owed; or what was has not come because it ended, or has gone with the oldest copies.
    mayBeEmpty: !isOwed || life.wasCut || !entries.some((_, place) => isCertain(place)),
    last: ended === undefined ? entries.length - 1 : firstAfter(log, ended.returned) - 1,
    mayStart: (place) => place <= latest && isStart(place),
    mayEnd: (place) => !isOwed || place === entries.length - 1,
  };
}

/** The first that was published after this moment. */
function firstAfter({ publishes }: Log, moment: number): number {
  const first = publishes.findIndex((publish) => publish !== undefined && publish.invoked > moment);
  return first < 0 ? publishes.length : first;
}

/** Whether it is the first of its stream that comes after a position. */
function isFirstSince({ entries }: Log, place: number, from: Position): boolean {
  const { position } = entries[place]!;
  if (comparePositions(position, from) <= 0) return false;
  const before = entries[place - 1]?.position;
  return before === undefined || before.generation !== position.generation || comparePositions(before, from) <= 0;
}

/** Whether it was published to the stream that is there now. */
function isOfToday({ deletions }: Story, { source }: Epoch, publish: Publish | undefined): boolean {
  return deletions.every((one) => one.source !== source || (publish !== undefined && publish.invoked > one.returned));
}

function mayHaveEnded({ deletions }: Story, { began, source }: Epoch): boolean {
  return deletions.some((one) => one.source === source && one.returned > began.invoked);
}

/** A publish whose answer said that everybody has it: whoever looked afterwards has seen it. */
function missingAfterCopies(story: Story, life: Life, epochs: readonly Epoch[], log: Log): string[] {
  if (life.wasCut) return [];
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
