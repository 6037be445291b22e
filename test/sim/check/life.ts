/**
 * Whether a stream may have existed, or not, when a call said so. A life of a path is one interval of time: a stream that
 * lived before and after a moment lived at that moment. Called by index.ts.
 *
 * Invariants:
 * - "absent" and "gone" are wrong while a life is known to last, and otherwise need a reason: a delete, or a TTL that had
 * passed since the last use;
 * - an acknowledged delete ends the life it meets; a new life needs the end of the one before;
 * - "gone" needs a fork for which the stream is kept;
 * - a listing names every stream that existed throughout.
 */
import { type Call, show } from "../history.ts";
import { type Incarnation, isWrite, type Ledger, wrote } from "./ledger.ts";
import { type Observation, observe } from "./observations.ts";

interface Life {
  readonly incarnation: Incarnation;
  /** Every observation that shows it alive at some moment of an interval. */
  readonly signs: readonly Observation[];
  /** It is known to live from the first to the second; only if the first is smaller. */
  readonly from: number;
  readonly to: number;
}

export function checkLife(ledger: Ledger): string[] {
  const observations = observe(ledger);
  const violations: string[] = [];
  for (const path of ledger.paths) {
    const all = ledger.incarnationsOf(path).map((incarnation) => lifeOf(incarnation, observations));
    const lives = all.filter(({ signs }) => signs.length > 0);
    const calls = ledger.history.calls.filter((call) => isAbout(call, path));
    for (const call of calls) violations.push(...checkCall(ledger, call, path, lives, calls));
    for (const [i, life] of lives.entries()) violations.push(...checkSuccession(ledger, lives[i - 1], life, calls));
  }
  return violations;
}

function lifeOf(incarnation: Incarnation, observations: readonly Observation[]): Life {
  const { path, generation } = incarnation;
  const signs = observations.filter((one) => one.path === path && one.position.generation === generation);
  const from = Math.min(...signs.map(({ returned }) => returned));
  const to = Math.max(...signs.map(({ invoked }) => invoked));
  return { incarnation, signs, from, to };
}

/** The creation of a fork also tells about its source. */
function isAbout({ op, result }: Call, path: string): boolean {
  if (op.kind === "create" && op.fork && isAbsence(result)) return op.fork.source === path;
  return op.path === path || op.kind === "list";
}

function isAbsence(result: Call["result"]): boolean {
  return result.kind === "refused" && ["stream-not-found", "stream-gone", "fork-source-gone"].includes(result.code);
}

function checkCall(ledger: Ledger, call: Call, path: string, lives: readonly Life[], calls: readonly Call[]): string[] {
  const { op, result, invoked, returned } = call;
  if (returned === undefined) return [];
  const during = lives.find(({ from, to }) => from < invoked.tick && returned.tick < to);
  if (op.kind === "list" && result.kind === "done") {
    const isListed = result.listed!.some((listed) => listed.path === path);
    return during && !isListed ? [`a listing misses ${path}, which was there throughout: ${show(call)}`] : [];
  }
  if (op.kind === "delete" && result.kind === "done") {
    return during ? [`a deleted stream lives on: ${show(call)} | ${show(after(during, returned.tick).call)}`] : [];
  }
  if (!isAbsence(result)) return [];
  if (during && !mayComeBack(ledger, during, call, calls)) {
    return [`a stream that lived throughout was not found: ${show(call)} | ${show(after(during, returned.tick).call)}`];
  }
  const violations: string[] = [];
  const before = lives.findLast(({ from }) => from < invoked.tick);
  if (before && !mayHaveEnded(ledger, before, call, calls)) {
    violations.push(`a stream has gone without a reason: ${show(call)} | ${show(lastSign(before, call).call)}`);
  }
  const isGone = result.kind === "refused" && result.code !== "stream-not-found";
  if (isGone && !hadFork(ledger, path, returned.tick)) {
    violations.push(`a stream is kept for forks that no call made: ${show(call)}`);
  }
  return violations;
}

/**
 * A write of unknown outcome may appear only after a restart, and with it the time of its use. Until then the stream may
 * look expired to every client.
 */
function mayComeBack(ledger: Ledger, life: Life, call: Call, calls: readonly Call[]): boolean {
  const isOpen = ({ op, result, invoked }: Call): boolean =>
    op.kind === "append" && result.kind === "unknown" && invoked.tick < call.returned!.tick;
  return calls.some(isOpen) && mayHaveExpired(ledger, life, call);
}

function after({ signs }: Life, tick: number): Observation {
  return signs.find(({ invoked }) => invoked > tick)!;
}

/** The last observation before a call that shows the stream alive. */
function lastSign({ signs }: Life, call: Call): Observation {
  const before = signs.filter(({ returned }) => returned < call.invoked.tick);
  return before.reduce((a, b) => (b.invoked > a.invoked ? b : a));
}

/** Whether something can have ended this life before the call returned. */
function mayHaveEnded(ledger: Ledger, life: Life, call: Call, calls: readonly Call[]): boolean {
  const sign = lastSign(life, call);
  const isDeleted = calls.some(
    (other) => isDeletion(other) && ended(other) > sign.invoked && other.invoked.tick < call.returned!.tick,
  );
  return isDeleted || mayHaveExpired(ledger, life, call);
}

/** A TTL may end late, never early. A HEAD or a listing does not extend it. */
function mayHaveExpired(ledger: Ledger, { incarnation, signs }: Life, call: Call): boolean {
  if (incarnation.create === undefined) return true;
  const ttlSeconds = ledger.ttlOf(incarnation);
  if (ttlSeconds === undefined) return false;
  const uses = signs.filter(({ call: use, returned }) => returned < call.invoked.tick && isUse(use));
  return call.returned!.ms >= lastUse(uses, ttlSeconds * 1_000) + ttlSeconds * 1_000;
}

/** A read that returns after the expiry may have come too late to extend the TTL. */
function lastUse(uses: readonly Observation[], ttlMs: number): number {
  let last: number | undefined;
  for (const { call } of uses.toSorted((a, b) => a.invoked - b.invoked)) {
    if (call.op.kind !== "read" || last === undefined || call.returned!.ms < last + ttlMs) last = call.invoked.ms;
  }
  return last ?? 0;
}

/** Whether the call certainly extends a TTL. A repetition, a refusal and a HEAD do not. */
function isUse(call: Call): boolean {
  const { op, result } = call;
  if (result.kind !== "done") return false;
  if (op.kind === "create") return result.status === 201;
  return isWrite(call) ? wrote(call) : op.kind === "read";
}

function checkSuccession(ledger: Ledger, before: Life | undefined, life: Life, calls: readonly Call[]): string[] {
  if (before === undefined || before.incarnation.create === undefined) return [];
  if (ledger.ttlOf(before.incarnation) !== undefined) return [];
  const earliest = life.signs.reduce((a, b) => (b.returned < a.returned ? b : a));
  const isDeleted = calls.some(
    (call) => isDeletion(call) && ended(call) > before.to && call.invoked.tick < earliest.returned,
  );
  if (isDeleted) return [];
  return [`a stream was created anew although no call had deleted it: ${show(earliest.call)}`];
}

function isDeletion({ op, result }: Call): boolean {
  return op.kind === "delete" && (result.kind === "done" || result.kind === "unknown");
}

function ended({ returned }: Call): number {
  return returned?.tick ?? Number.POSITIVE_INFINITY;
}

function hadFork({ history }: Ledger, path: string, before: number): boolean {
  return history.calls.some(
    ({ op, result, invoked }) =>
      op.kind === "create" &&
      op.fork?.source === path &&
      invoked.tick < before &&
      (result.kind === "done" || result.kind === "unknown" || result.kind === "refused"),
  );
}
