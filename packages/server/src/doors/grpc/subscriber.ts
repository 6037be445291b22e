/**
 * `google.pubsub.v1.Subscriber`: subscriptions, pulling, acknowledgements and snapshots.
 *
 * Invariants: an answered acknowledgement is durable. Ids that are unknown are ignored, except on exactly-once subscriptions, where
 * each is told.
 */
import { Refusal } from "../../core/refusal.ts";
import type { AckOutcome, SeekTarget, Subscription } from "../../pull/contract.ts";
import { type Caller, CallFailure, type MethodParts, maskOf, type Run, type Service, unary } from "./caller.ts";
import type { Names } from "./names.ts";
import { pageOf } from "./publisher.ts";
import { type PullWire, pullCall } from "./pull-call.ts";
import { ackFailure } from "./status.ts";
import { streamingPull } from "./streaming-pull.ts";
import { modifiedMs, optionsOf, subscriptionChange, subscriptionWire } from "./subscriptions.ts";
import { checkMask, snapshotWire } from "./topics.ts";
import { type Labels, type Masked, msOf, type PageWire, type Span, type SubscriptionWire } from "./wire.ts";

interface OfSubscription {
  readonly subscription: string;
}

interface OfSnapshot {
  readonly snapshot: string;
}

interface Acks extends OfSubscription {
  readonly ackIds: readonly string[];
}

interface Seek extends OfSubscription {
  readonly target?: "time" | "snapshot";
  readonly time: Span | null;
  readonly snapshot: string;
}

export function subscriber(parts: MethodParts): Service {
  return { ...subscriptionMethods(parts), ...deliveryMethods(parts), ...snapshotMethods(parts) };
}

function subscriptionMethods(parts: MethodParts): Service {
  const { service, definitions } = parts;
  const rendered = (one: Subscription, names: Names) => subscriptionWire(one, names, definitions);
  const one = (run: Run<OfSubscription>) => unary<OfSubscription>(parts, ({ subscription }) => subscription, run);
  return {
    CreateSubscription: unary<SubscriptionWire>(
      parts,
      ({ name }) => name,
      async ({ names, access }, asked) => {
        const id = names.subscription(asked.name);
        const options = optionsOf(asked, names, definitions);
        const topic = names.topic(asked.topic);
        const { value, isNew } = await service.create(names.project, id, { ...options, topic }, access);
        if (!isNew) throw new Refusal("subscription-already-exists", `the subscription ${id} exists`);
        return rendered(value, names);
      },
    ),
    GetSubscription: one(async ({ names, access }, { subscription }) =>
      rendered(await service.get(names.project, names.subscription(subscription), access), names),
    ),
    UpdateSubscription: unary<Masked & { readonly subscription: SubscriptionWire | null }>(
      parts,
      ({ subscription }) => subscription?.name ?? "",
      async ({ names, access }, { subscription, updateMask }) => {
        const id = names.subscription(subscription!.name);
        const known = await service.get(names.project, id, access);
        const change = subscriptionChange(subscription!, maskOf(updateMask), known, names, definitions);
        return rendered(await service.update(names.project, id, change, access), names);
      },
    ),
    ListSubscriptions: unary<PageWire & { readonly project: string }>(
      parts,
      ({ project }) => project,
      async ({ names, access }, asked) => {
        const { items, next = "" } = await service.list(names.project, pageOf(asked), access);
        return { subscriptions: items.map((item) => rendered(item, names)), nextPageToken: next };
      },
    ),
    DeleteSubscription: one(async ({ names, access }, { subscription }) => {
      await service.delete(names.project, names.subscription(subscription), access);
      return {};
    }),
    ModifyPushConfig: unary<OfSubscription & { readonly pushConfig: object | null }>(
      parts,
      ({ subscription }) => subscription,
      async ({ names, access }, { subscription, pushConfig }) => {
        const id = names.subscription(subscription);
        const known = await service.get(names.project, id, access);
        const wire = { pushConfig: pushConfig ?? {} } as SubscriptionWire;
        await service.update(names.project, id, subscriptionChange(wire, PUSH, known, names, definitions), access);
        return {};
      },
    ),
    Seek: unary<Seek>(
      parts,
      ({ subscription }) => subscription,
      async ({ names, access }, asked) => {
        const id = names.subscription(asked.subscription);
        await service.seek(names.project, id, targetOf(asked, names), access);
        return {};
      },
    ),
  };
}

const PUSH: ReadonlySet<string> = new Set(["pushConfig"]);

function targetOf({ target, time, snapshot }: Seek, names: Names): SeekTarget {
  if (target === "snapshot") return { snapshot: names.snapshot(snapshot) };
  if (target === "time" && time !== null) return { timeMs: Math.max(0, Math.ceil(msOf(time))) };
  throw new Refusal("bad-request", "A seek needs a time or a snapshot.");
}

function deliveryMethods(parts: MethodParts): Service {
  const { service } = parts;
  return {
    StreamingPull: streamingPull(parts),
    Pull: unary<PullWire>(
      parts,
      ({ subscription }) => subscription,
      (caller, asked, call) => pullCall(parts, caller, asked, call),
    ),
    Acknowledge: unary<Acks>(
      parts,
      ({ subscription }) => subscription,
      async (caller, { subscription, ackIds }) => {
        const { names, access } = caller;
        const id = names.subscription(subscription);
        const outcomes = await service.acknowledge(names.project, id, ackIds, access);
        return answered(parts, caller, id, ackIds, outcomes);
      },
    ),
    ModifyAckDeadline: unary<Acks & { readonly ackDeadlineSeconds: number }>(
      parts,
      ({ subscription }) => subscription,
      async (caller, { subscription, ackIds, ackDeadlineSeconds }) => {
        const { names, access } = caller;
        const id = names.subscription(subscription);
        const ms = modifiedMs(ackDeadlineSeconds);
        const outcomes = await service.modifyAckDeadline(names.project, id, ackIds, ms, access);
        return answered(parts, caller, id, ackIds, outcomes);
      },
    ),
  };
}

/** What was not stored may be repeated; what is gone matters only where each message is acknowledged exactly once. */
async function answered(
  { service, definitions }: MethodParts,
  { names, access }: Caller,
  id: string,
  ids: readonly string[],
  outcomes: readonly AckOutcome[],
): Promise<object> {
  if (outcomes.every((outcome) => outcome === "done")) return {};
  const { isExactlyOnce } = await service.get(names.project, id, access);
  const failure = isExactlyOnce ? ackFailure(ids, outcomes, definitions) : undefined;
  if (failure !== undefined) throw new CallFailure(failure);
  if (outcomes.includes("failed")) throw new Refusal("unavailable", "not every answer could be stored; repeat them");
  return {};
}

function snapshotMethods(parts: MethodParts): Service {
  const { service } = parts;
  const one = (run: Run<OfSnapshot>) => unary<OfSnapshot>(parts, ({ snapshot }) => snapshot, run);
  return {
    CreateSnapshot: unary<{ readonly name: string; readonly subscription: string; readonly labels: Labels }>(
      parts,
      ({ name }) => name,
      async ({ names, access }, asked) => {
        const [id, subscription] = [names.snapshot(asked.name), names.subscription(asked.subscription)];
        const labels = { ...asked.labels };
        return snapshotWire(await service.createSnapshot(names.project, id, subscription, { labels }, access), names);
      },
    ),
    GetSnapshot: one(async ({ names, access }, { snapshot }) =>
      snapshotWire(await service.snapshot(names.project, names.snapshot(snapshot), access), names),
    ),
    ListSnapshots: unary<PageWire & { readonly project: string }>(
      parts,
      ({ project }) => project,
      async ({ names, access }, asked) => {
        const { items, next = "" } = await service.snapshots(names.project, pageOf(asked), access);
        return { snapshots: items.map((item) => snapshotWire(item, names)), nextPageToken: next };
      },
    ),
    UpdateSnapshot: unary<Masked & { readonly snapshot: { readonly name: string; readonly labels: Labels } | null }>(
      parts,
      ({ snapshot }) => snapshot?.name ?? "",
      async ({ names, access }, { snapshot, updateMask }) => {
        checkMask(maskOf(updateMask), SNAPSHOT_CHANGEABLE);
        const labels = { ...snapshot!.labels };
        const id = names.snapshot(snapshot!.name);
        return snapshotWire(await service.updateSnapshot(names.project, id, { labels }, access), names);
      },
    ),
    DeleteSnapshot: one(async ({ names, access }, { snapshot }) => {
      await service.deleteSnapshot(names.project, names.snapshot(snapshot), access);
      return {};
    }),
  };
}

const SNAPSHOT_CHANGEABLE: ReadonlySet<string> = new Set(["labels"]);
