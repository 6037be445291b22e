/**
 * Delivery as doors use it: pull, streaming pull, acknowledgements. Part of the service: it finds the dispatcher of a subscription
 * and checks what it is asked.
 *
 * Invariants: a caller gets only messages of topics that it may see. A pull that ends leaves no stream behind.
 */
import type { Access } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import type { AckOutcome, Delivery, FlowLimits, Pull, PullStream, StreamEvents, StreamOptions } from "./contract.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { checkAckDeadline } from "./options.ts";
import { demand, type PullParts, subscriptionNotFound } from "./parts.ts";
import type { DispatcherRegistry } from "./registry.ts";
import { pullerEntity } from "./state.ts";

export class Consuming {
  constructor(
    private readonly parts: PullParts,
    private readonly registry: DispatcherRegistry,
  ) {}

  /** Throws a Refusal unless the subscription delivers and the caller may use it. */
  private async dispatcher(project: string, name: string, access: Access, action: string): Promise<Dispatcher> {
    await demand(access, project, action, "read-or-write");
    const puller = pullerEntity(project, name);
    const here = this.registry.here(puller);
    const place = here === undefined ? await this.registry.find(puller) : ({ kind: "here", dispatcher: here } as const);
    if (place.kind === "absent") throw subscriptionNotFound(name);
    if (place.kind !== "here") throw new Refusal("unavailable", `no node serves the subscription ${name}; retry`);
    const { dispatcher } = place;
    await demand(access, project, action, "read-or-write", dispatcher.topic.path);
    if (dispatcher.isDetached) throw new Refusal("subscription-detached", `the subscription ${name} is detached`);
    return dispatcher;
  }

  async open(
    project: string,
    name: string,
    asked: StreamOptions,
    to: StreamEvents,
    access: Access,
  ): Promise<PullStream> {
    if (asked.ackDeadlineMs !== undefined) checkAckDeadline(asked.ackDeadlineMs);
    const dispatcher = await this.dispatcher(project, name, access, "stream");
    const holder = dispatcher.open(asked, to);
    return {
      pause: () => {
        holder.isPaused = true;
      },
      resume: () => {
        holder.isPaused = false;
        dispatcher.giveSoon();
      },
      setAckDeadline: (ms) => {
        checkAckDeadline(ms);
        holder.leaseMs = ms;
      },
      setLimits: (limits: FlowLimits) => dispatcher.setLimits(holder, limits),
      close: () => dispatcher.close(holder),
    };
  }

  async pull(project: string, name: string, asked: Pull, access: Access): Promise<readonly Delivery[]> {
    const { world, limits } = this.parts;
    const { maxMessages, maxBytes, waitMs = 0 } = asked;
    if (!(maxMessages >= 1)) throw new Refusal("bad-request", "maxMessages must be at least 1");
    const dispatcher = await this.dispatcher(project, name, access, "pull");
    return new Promise((resolve, reject) => {
      const finish = (messages: readonly Delivery[]) => {
        cancel();
        dispatcher.close(holder);
        resolve(messages);
      };
      const holder = dispatcher.open(
        { maxMessages: Math.min(maxMessages, limits.turnMessages), maxBytes },
        {
          deliver: finish,
          idle: () => {
            if (waitMs <= 0) finish([]);
          },
          ended: (why) => {
            cancel();
            reject(endOf(why, name));
          },
        },
      );
      const cancel = waitMs <= 0 ? () => {} : world.after(Math.min(waitMs, limits.pullWaitMs), () => finish([]));
    });
  }

  async acknowledge(project: string, name: string, ids: readonly string[], access: Access): Promise<AckOutcome[]> {
    return (await this.dispatcher(project, name, access, "ack")).ack(ids);
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
    return (await this.dispatcher(project, name, access, "modify-ack-deadline")).extend(ids, deadlineMs);
  }

  async nack(
    project: string,
    name: string,
    ids: readonly string[],
    delayMs: number | undefined,
    access: Access,
  ): Promise<AckOutcome[]> {
    if (delayMs !== undefined && !(delayMs >= 0)) throw new Refusal("bad-request", "delayMs must not be negative");
    return (await this.dispatcher(project, name, access, "nack")).nack(ids, delayMs);
  }
}

function endOf(why: string, name: string): Refusal {
  if (why === "subscription-deleted") return subscriptionNotFound(name);
  if (why === "detached") return new Refusal("subscription-detached", `the subscription ${name} is detached`);
  return new Refusal(why === "draining" ? "draining" : "unavailable", "another node serves the subscription; retry");
}
