/**
 * Delivery as doors use it: pull, streaming pull, acknowledgements. Part of the service: it checks what it is asked, and passes it
 * on to the dispatcher of the subscription, on this node or another.
 *
 * Invariants: a caller gets only messages of topics that it may see. A pull that ends leaves no stream behind.
 */
import type { Access } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import type { Ask } from "./carrier.ts";
import type { AckOutcome, Delivery, Pull, PullStream, StreamEnd, StreamEvents, StreamOptions } from "./contract.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { checkAckDeadline } from "./options.ts";
import { demand, metaOf, type PullParts, subscriptionNotFound } from "./parts.ts";
import type { DispatcherRegistry } from "./registry.ts";
import type { RemoteSubscriptions } from "./remote-subscriptions.ts";
import { pullerEntity } from "./state.ts";

/** The dispatcher of a subscription, wherever it is. */
interface Served {
  stream(asked: StreamOptions, events: StreamEvents): Promise<PullStream> | PullStream;
  ack(ids: readonly string[]): Promise<AckOutcome[]>;
  nack(ids: readonly string[], delayMs: number | undefined): Promise<AckOutcome[]>;
  extend(ids: readonly string[], leaseMs: number): Promise<AckOutcome[]> | AckOutcome[];
}

export class Consuming {
  constructor(
    private readonly parts: PullParts,
    private readonly registry: DispatcherRegistry,
    private readonly remote: RemoteSubscriptions,
  ) {}

  /** Throws a Refusal unless the subscription delivers and the caller may use it. */
  private async served(project: string, name: string, access: Access, action: string): Promise<Served> {
    await demand(access, project, action, "read-or-write");
    const puller = pullerEntity(project, name);
    const here = this.registry.here(puller);
    const place = here === undefined ? await this.registry.find(puller) : { kind: "here" as const, dispatcher: here };
    if (place.kind === "absent") throw subscriptionNotFound(name);
    if (place.kind === "unknown") throw new Refusal("unavailable", `no node serves the subscription ${name}; retry`);
    if (place.kind === "elsewhere") return this.elsewhere(project, name, place.node, access, action);
    const { dispatcher } = place;
    await this.demandTopic(dispatcher, project, name, access, action);
    return dispatcher;
  }

  private async demandTopic(
    { topic, isDetached }: Pick<Dispatcher, "topic" | "isDetached">,
    project: string,
    name: string,
    access: Access,
    action: string,
  ): Promise<void> {
    await demand(access, project, action, "read-or-write", topic.path);
    if (isDetached)
      throw new Refusal("subscription-detached", `the subscription ${name} is detached; create a new one`);
  }

  private async elsewhere(
    project: string,
    name: string,
    node: string,
    access: Access,
    action: string,
  ): Promise<Served> {
    const meta = await metaOf(this.parts, project, name);
    await this.demandTopic(meta, project, name, access, action);
    const { remote } = this;
    const puller = pullerEntity(project, name);
    const answer = (ids: readonly string[], what: (ids: readonly string[]) => Ask) =>
      remote.answer(node, puller, ids, what);
    return {
      stream: (asked, events) => remote.stream(node, puller, meta.topic, asked, events),
      ack: (all) => answer(all, (ids) => ({ type: "ack", ids })),
      nack: (all, delayMs) => answer(all, (ids) => ({ type: "nack", ids, delayMs })),
      extend: (all, leaseMs) => answer(all, (ids) => ({ type: "extend", ids, leaseMs })),
    };
  }

  async open(
    project: string,
    name: string,
    asked: StreamOptions,
    to: StreamEvents,
    access: Access,
  ): Promise<PullStream> {
    if (asked.ackDeadlineMs !== undefined) checkAckDeadline(asked.ackDeadlineMs);
    return (await this.served(project, name, access, "stream")).stream(asked, to);
  }

  async pull(project: string, name: string, asked: Pull, access: Access): Promise<readonly Delivery[]> {
    const { world, limits } = this.parts;
    const { maxMessages, maxBytes, waitMs = 0 } = asked;
    if (!(maxMessages >= 1)) throw new Refusal("bad-request", "maxMessages must be at least 1");
    const served = await this.served(project, name, access, "pull");
    return new Promise((resolve, reject) => {
      let stream: PullStream | undefined;
      let isOver = false;
      const finish = (messages: readonly Delivery[]) => {
        isOver = true;
        cancel();
        stream?.close();
        resolve(messages);
      };
      const fail = (fault: unknown) => {
        isOver = true;
        cancel();
        reject(fault);
      };
      const cancel = waitMs <= 0 ? () => {} : world.after(Math.min(waitMs, limits.pullWaitMs), () => finish([]));
      const events: StreamEvents = {
        deliver: finish,
        idle: () => {
          if (waitMs <= 0) finish([]);
        },
        ended: (why) => fail(endOf(why, name)),
      };
      const opening = served.stream({ maxMessages: Math.min(maxMessages, limits.turnMessages), maxBytes }, events);
      Promise.resolve(opening).then((opened) => {
        stream = opened;
        if (isOver) opened.close();
      }, fail);
    });
  }

  async acknowledge(project: string, name: string, ids: readonly string[], access: Access): Promise<AckOutcome[]> {
    return (await this.served(project, name, access, "ack")).ack(ids);
  }

  async modifyAckDeadline(
    project: string,
    name: string,
    ids: readonly string[],
    deadlineMs: number,
    access: Access,
  ): Promise<AckOutcome[]> {
    if (deadlineMs === 0) return this.nack(project, name, ids, undefined, access);
    checkAckDeadline(deadlineMs);
    return (await this.served(project, name, access, "modify-ack-deadline")).extend(ids, deadlineMs);
  }

  async nack(
    project: string,
    name: string,
    ids: readonly string[],
    delayMs: number | undefined,
    access: Access,
  ): Promise<AckOutcome[]> {
    if (delayMs !== undefined && !(delayMs >= 0)) throw new Refusal("bad-request", "delayMs must not be negative");
    return (await this.served(project, name, access, "nack")).nack(ids, delayMs);
  }
}

function endOf(why: StreamEnd, name: string): Refusal {
  if (why === "subscription-deleted") return subscriptionNotFound(name);
  if (why === "detached")
    return new Refusal("subscription-detached", `the subscription ${name} is detached; create a new one`);
  return new Refusal(why === "draining" ? "draining" : "unavailable", "another node serves the subscription; retry");
}
