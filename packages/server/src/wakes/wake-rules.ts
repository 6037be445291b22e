/**
 * The rules of a wake. It begins when a linked stream has unacknowledged messages. Its notification is attempted until
 * it gets through. A holder then has it under a lease. It ends by `done`, release or the end of the lease. Pure; the
 * waker and `Holding` submit them to the subscription's keeper.
 *
 * Invariants: at most one wake is in progress. Each wake has a greater generation than the one before. A request for a
 * wake must carry its current id, generation and secret; any other request is fenced.
 */
import { BEGINNING, comparePositions, formatOffset, type Position, parseOffset, ZERO } from "@sluice/protocol";
import { backoffMs } from "../core/backoff.ts";
import { type Change, put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { WAKE_LIMITS, type WakeLimits } from "./defaults.ts";
import { known } from "./link-rules.ts";
import {
  type Attempt,
  ackedPosition,
  isPending,
  type Link,
  linkTable,
  type Meta,
  nextDue,
  type State,
  stateTable,
  type Tail,
  type Wake,
  wakeAt,
} from "./state.ts";
import { isSameSecret, type Token } from "./tokens.ts";

/** Webhook retries are spread by a fifth, so that receivers that failed together are not called together. */
const RETRY_JITTER = [0.8, 1.2] as const;

/** The delay after this many consecutive failures; `random` is uniform in [0, 1). */
export function retryDelay(failures: number, random: number, limits = WAKE_LIMITS): number {
  return backoffMs(failures, { firstMs: limits.retryMs, maxMs: limits.maxRetryMs, jitter: RETRY_JITTER }, random);
}

/** Stores the state and the reminder that follows from it. */
function saved<O>(outcome: O, state: State, more: readonly Change[] = []): Decision<O> {
  return { outcome, changes: [...more, put(stateTable, "", state), { op: "remind", atMs: nextDue(state) ?? null }] };
}

/** The random values of a new wake. */
export interface Fresh {
  readonly wakeId: string;
  readonly secret: string;
}

export type WakeOutcome =
  | { readonly kind: "absent" | "busy" | "idle" }
  | { readonly kind: "woken"; readonly meta: Meta; readonly wake: Wake };

/** Begins a wake if none is in progress and a stream of `tails` is pending. A webhook's snapshot is taken here. */
export function wakeRule(
  view: View,
  now: number,
  { incarnation, fresh, tails }: { incarnation: string; fresh: Fresh; tails: readonly Tail[] },
  { lostAttemptMs, tokenMs }: WakeLimits,
): Decision<WakeOutcome> {
  const found = known(view, incarnation);
  if (found === undefined) return { outcome: { kind: "absent" } };
  const { meta, state } = found;
  if (wakeAt(state, now)) return { outcome: { kind: "busy" } };
  const pending = stillPending(view, tails);
  if (pending.length === 0) return { outcome: { kind: "idle" } };

  const isWebhook = meta.config.type === "webhook";
  const generation = state.generation + 1;
  const wake: Wake = {
    id: fresh.wakeId,
    generation,
    trigger: pending[0]!.path,
    attempt: { number: 1, nextAt: now + lostAttemptMs },
    secret: isWebhook ? fresh.secret : undefined,
    tokenUntil: isWebhook ? now + tokenMs : undefined,
  };
  const snapshots = pending.map(({ path, tail }) =>
    put(linkTable, path, { ...view.get(linkTable, path)!, snapshot: { generation, offset: formatOffset(tail) } }),
  );
  return saved({ kind: "woken", meta, wake }, { ...state, generation, wake }, isWebhook ? snapshots : []);
}

function stillPending(view: View, tails: readonly Tail[]): readonly Tail[] {
  return tails.filter(({ path, tail }) => {
    const link = view.get(linkTable, path);
    return link !== undefined && isPending(link, tail);
  });
}

export type DueOutcome =
  | { readonly kind: "absent" | "waiting" | "expired" }
  | { readonly kind: "attempt"; readonly meta: Meta; readonly wake: Wake };

export interface Due {
  readonly incarnation: string;
  /**
   * `swept`: the reminder has passed. `first-look`: earlier attempts were lost with their process. `retry`: do not wait
   * longer.
   */
  readonly why: "time" | "swept" | "first-look" | "retry";
  /** The generation whose notification this process is delivering. */
  readonly inFlight: number | undefined;
}

/** Handles the end of a lease, or the next attempt. */
export function dueRule(view: View, now: number, due: Due, { lostAttemptMs }: WakeLimits): Decision<DueOutcome> {
  const found = known(view, due.incarnation);
  if (found === undefined) return { outcome: { kind: "absent" } };
  const { meta, state } = found;
  const wake = wakeAt(state, now);
  if (wake !== state.wake) return saved({ kind: "expired" }, { ...state, wake: undefined });
  if (wake?.attempt === undefined || !isAttemptDue(state, wake.attempt, now, due.why)) {
    const isStale = due.why === "swept";
    return { outcome: { kind: "waiting" }, changes: isStale ? [{ op: "remind", atMs: nextDue(state) ?? null }] : [] };
  }
  const isUnderWay = wake.generation === due.inFlight;
  const number = wake.attempt.number + (isUnderWay ? 0 : 1);
  const again = { ...wake, attempt: { number, nextAt: now + lostAttemptMs } };
  const outcome: DueOutcome = isUnderWay ? { kind: "waiting" } : { kind: "attempt", meta, wake: again };
  return saved(outcome, { ...state, wake: again });
}

function isAttemptDue({ failures }: State, { nextAt }: Attempt, now: number, why: Due["why"]): boolean {
  return nextAt <= now || (why === "retry" && failures > 0) || (why === "first-look" && failures === 0);
}

export interface Result {
  readonly incarnation: string;
  readonly generation: number;
  readonly attempt: number;
  readonly kind: "sent" | "done" | "failed";
  /** The streams of the wake's snapshot, which `done` acknowledges. */
  readonly snapshot: readonly string[];
  readonly random: number;
}

/** Stores the result of an attempt. A result of any other attempt than the current one changes nothing. */
export function resultRule(
  view: View,
  now: number,
  result: Result,
  limits: WakeLimits,
): Decision<"stale" | "kept" | "ended"> {
  const found = known(view, result.incarnation);
  const wake = found && wakeAt(found.state, now);
  if (found === undefined || wake === undefined || wake.generation !== result.generation) return { outcome: "stale" };
  if (wake.attempt !== undefined && wake.attempt.number !== result.attempt) return { outcome: "stale" };
  const { meta, state } = found;
  const healthy: State = { ...state, status: "active", failures: 0 };
  switch (result.kind) {
    case "done":
      return saved("ended", { ...healthy, wake: undefined }, ackSnapshot(view, wake.generation, result.snapshot));
    case "sent": {
      const leaseUntil =
        meta.config.type === "webhook" ? (wake.leaseUntil ?? now + meta.config.leaseMs) : wake.leaseUntil;
      return saved("kept", { ...healthy, wake: { ...wake, attempt: undefined, leaseUntil } });
    }
    case "failed": {
      // Without an attempt, a holder has already acted for this wake, so the notification got through.
      if (wake.attempt === undefined) return { outcome: "stale" };
      const failures = state.failures + 1;
      const attempt = { number: wake.attempt.number, nextAt: now + retryDelay(failures, result.random, limits) };
      return saved("kept", { ...state, status: "failed", failures, wake: { ...wake, attempt } });
    }
  }
}

function ackSnapshot(view: View, generation: number, paths: readonly string[]): readonly Change[] {
  const changes: Change[] = [];
  for (const path of paths) {
    const link = view.get(linkTable, path);
    if (link?.snapshot === undefined || link.snapshot.generation !== generation) continue;
    const reached = comparePositions(parseOffset(link.snapshot.offset)!, ackedPosition(link)) > 0;
    const acked = reached ? link.snapshot.offset : link.acked;
    changes.push(put(linkTable, path, { ...link, acked, snapshot: undefined }));
  }
  return changes;
}

export type ClaimOutcome =
  | { readonly kind: "absent" | "wrong-type" | "idle" }
  | { readonly kind: "held"; readonly holder: string; readonly generation: number }
  | { readonly kind: "claimed"; readonly meta: Meta; readonly wake: Wake };

/** A worker takes the wake in progress, or begins one if there is work and no notification was sent yet. */
export function claimRule(
  view: View,
  now: number,
  { worker, fresh, tails }: { worker: string; fresh: Fresh; tails: readonly Tail[] },
  { tokenMs }: WakeLimits,
): Decision<ClaimOutcome> {
  const found = known(view);
  if (found === undefined) return { outcome: { kind: "absent" } };
  const { meta, state } = found;
  if (meta.config.type !== "pull-wake") return { outcome: { kind: "wrong-type" } };
  const current = wakeAt(state, now);
  if (current?.holder !== undefined) {
    return { outcome: { kind: "held", holder: current.holder, generation: current.generation } };
  }
  const pending = stillPending(view, tails);
  // The notified worker has claimed and found no work. Later messages need a new wake.
  if (pending.length === 0) return saved({ kind: "idle" }, { ...state, wake: undefined });
  const begun = current ?? { id: fresh.wakeId, generation: state.generation + 1, trigger: pending[0]!.path };
  const wake: Wake = {
    ...begun,
    attempt: undefined,
    secret: fresh.secret,
    tokenUntil: now + tokenMs,
    holder: worker,
    leaseUntil: now + meta.config.leaseMs,
  };
  const next: State = { ...state, generation: wake.generation, status: "active", failures: 0, wake };
  return saved({ kind: "claimed", meta, wake }, next);
}

/** The proof of a holder: the token from the header, wake id and generation from the body. */
export interface Proof {
  readonly token: Token;
  readonly wakeId: string;
  readonly generation: number;
}

export interface Ack {
  readonly path: string;
  readonly offset: string;
}

export type ProofFailure = { readonly kind: "absent" | "fenced" | "token-expired" | "wrong-type" };

export type AckOutcome =
  | ProofFailure
  | { readonly kind: "bad-ack"; readonly why: string }
  | { readonly kind: "acked"; readonly isReleased: boolean };

/** A holder's ack: acknowledges, extends the lease, and with `done` ends the wake. All of it or nothing. */
export function ackRule(
  view: View,
  now: number,
  input: { proof: Proof; pullOnly: boolean; acks: readonly Ack[]; tails: ReadonlyMap<string, Position>; done: boolean },
): Decision<AckOutcome> {
  const held = prove(view, now, input.proof, input.pullOnly);
  if (held.kind !== "held") return { outcome: held };
  const { state, wake, meta } = held;
  const acked = new Map<string, Link>();
  for (const ack of input.acks) {
    const link = acked.get(ack.path) ?? view.get(linkTable, ack.path);
    const why = link === undefined ? "is not linked" : refuseAck(ack, link, input.tails.get(ack.path) ?? ZERO);
    if (why !== undefined) return { outcome: { kind: "bad-ack", why: `${ack.path}: ${why}` } };
    acked.set(ack.path, { ...link!, acked: ack.offset });
  }
  const changes = [...acked].map(([path, link]) => put(linkTable, path, link));
  const leaseUntil = now + meta.config.leaseMs;
  const next = input.done ? undefined : { ...wake, attempt: undefined, leaseUntil };
  const outcome: AckOutcome = { kind: "acked", isReleased: input.done };
  return saved(outcome, { ...state, status: "active", failures: 0, wake: next }, changes);
}

function refuseAck({ offset }: Ack, link: Link, tail: Position): string | undefined {
  if (offset === BEGINNING) return `${BEGINNING} acknowledges nothing; send the offset of a processed message`;
  const position = parseOffset(offset);
  if (position === undefined) return "the offset is not from this server";
  if (comparePositions(position, ackedPosition(link)) < 0)
    return `the offset lies before ${link.acked}, which is acknowledged`;
  if (comparePositions(position, tail) > 0) return `the offset lies beyond the tail ${formatOffset(tail)}`;
  return undefined;
}

/** Releases the wake unfinished. */
export function releaseRule(
  view: View,
  now: number,
  proof: Proof,
): Decision<ProofFailure | { readonly kind: "released" }> {
  const held = prove(view, now, proof, true);
  if (held.kind !== "held") return { outcome: held };
  return saved({ kind: "released" }, { ...held.state, wake: undefined });
}

type Held = { readonly kind: "held"; readonly meta: Meta; readonly state: State; readonly wake: Wake };

function prove(view: View, now: number, { token, wakeId, generation }: Proof, pullOnly: boolean): Held | ProofFailure {
  const found = known(view);
  if (found === undefined) return { kind: "absent" };
  const { meta, state } = found;
  if (pullOnly && meta.config.type !== "pull-wake") return { kind: "wrong-type" };
  if (token.until <= now) return { kind: "token-expired" };
  const wake = wakeAt(state, now);
  const isCurrent =
    wake?.secret !== undefined &&
    token.incarnation === meta.incarnation &&
    token.generation === wake.generation &&
    generation === wake.generation &&
    wakeId === wake.id &&
    isSameSecret(token.secret, wake.secret);
  if (!isCurrent) return { kind: "fenced" };
  return wake.tokenUntil! <= now ? { kind: "token-expired" } : { kind: "held", meta, state, wake };
}
