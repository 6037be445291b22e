/**
 * `Subscriber.StreamingPull`: one stream of a subscription for as long as its client stays. `subscriber.ts` makes one per call.
 *
 * Invariants: nothing is leased while the network does not take what was written, and no request is read while many responses wait.
 * Each request without acknowledgements, the client's sign of life, is answered. The call ends with a status by which Google's clients
 * know whether to connect again, and never with OK.
 */
import type { Access } from "../../core/action.ts";
import { Refusal } from "../../core/refusal.ts";
import type { Cancel } from "../../core/world.ts";
import type { AckOutcome, Delivery, PullStream, Subscription } from "../../pull/contract.ts";
import { type Caller, failureIn, identify, type MethodParts, namesOf, type Open } from "./caller.ts";
import { batchesOf } from "./deliveries.ts";
import type { GrpcCall, Handler } from "./grpc-call.ts";
import type { Failure } from "./status.ts";
import { endOf } from "./stream-end.ts";
import { deadlineMs, modifiedMs } from "./subscriptions.ts";
import type { Int64, StreamingPullWire } from "./wire.ts";

/** The farthest that a timer looks ahead. */
const AHEAD_MS = 3_600_000;

export function streamingPull(parts: MethodParts): Open {
  return (call) => new StreamingPull(parts, call);
}

class StreamingPull implements Handler {
  private caller: Caller | undefined;
  private name = "";
  private id = "";
  /** As the client was last told. */
  private told: Subscription | undefined;
  private stream: PullStream | undefined;
  private unsentBytes = 0;
  private unsentResponses = 0;
  /** Goes on with the client's requests. */
  private readOn = () => {};
  private isHeld = false;
  private isOver = false;
  private leave = () => {};
  private timer: Cancel | undefined;

  constructor(
    private readonly parts: MethodParts,
    private readonly call: GrpcCall,
  ) {
    call.onGone(() => this.stop());
  }

  /** One request after another, so that the first has opened the stream. */
  async take(asked: object): Promise<undefined> {
    const request = asked as StreamingPullWire;
    if (this.isOver) return;
    if (this.caller === undefined) await this.open(request);
    else await this.answer(this.caller, request);
    if (this.unsentResponses <= this.parts.limits.unsentResponses || this.isOver) return;
    await new Promise<void>((resolve) => {
      this.readOn = resolve;
    });
  }

  /** The client sends no more, so it answers no message either. */
  ended(): void {
    this.call.fail(new Refusal("body-timeout", "the client has ended its side of the stream"));
  }

  failure(fault: unknown): Failure {
    return failureIn(this.parts, this.call, this.caller?.names, fault);
  }

  private async answer({ access, names }: Caller, request: StreamingPullWire): Promise<void> {
    const { subscription, streamAckDeadlineSeconds: seconds, ackIds, modifyDeadlineAckIds } = request;
    if (subscription !== "" && subscription !== this.name) {
      throw new Refusal("bad-request", "The subscription of a stream must not change after its first request.");
    }
    if (seconds > 0) this.stream?.setAckDeadline(deadlineMs(seconds));
    const answer: Record<string, object> = {};
    if (ackIds.length > 0) {
      const outcomes = await this.parts.service.acknowledge(names.project, this.id, ackIds, access);
      answer.acknowledgeConfirmation = confirmation(ackIds, outcomes);
    }
    if (modifyDeadlineAckIds.length > 0) answer.modifyAckDeadlineConfirmation = await this.modify(request);
    if (ackIds.length + modifyDeadlineAckIds.length === 0) await this.refresh(access);
    else if (this.told?.isExactlyOnce) this.write(answer, 0);
  }

  private async open(request: StreamingPullWire): Promise<void> {
    const { parts, call } = this;
    const names = namesOf(request.subscription);
    this.name = request.subscription;
    this.id = names.subscription(this.name);
    const access = await identify(parts.identity, names.project, call);
    this.caller = { names, access };
    // A stream may be given up while it opens.
    if (this.isOver) return;
    this.leave = parts.audience.enter(names.project, call);
    parts.audience.stay(this);
    this.told = await parts.service.get(names.project, this.id, access);
    // First, because a client must know that a subscription is exactly-once before it gets a message.
    this.tellProperties();
    const { limits } = parts;
    const asked = {
      ackDeadlineMs: deadlineMs(request.streamAckDeadlineSeconds),
      maxMessages: limited(request.maxOutstandingMessages, limits.outstandingMessages),
      maxBytes: limited(request.maxOutstandingBytes, limits.outstandingBytes),
    };
    const events = {
      deliver: (messages: readonly Delivery[]) => this.deliver(messages),
      ended: (why: Parameters<typeof endOf>[0]) => this.call.fail(endOf(why, this.id)),
    };
    this.stream = await parts.service.open(names.project, this.id, asked, events, access);
    if (this.isOver) this.stream.close();
    else if (this.isHeld) this.stream.pause();
    this.watchToken(access);
  }

  /** Ends the stream when the caller's token ends. */
  private watchToken(access: Access): void {
    const { engine, world } = this.parts;
    if (access.untilMs === undefined || this.isOver) return;
    const leftMs = access.untilMs - engine.now();
    if (leftMs <= 0) this.call.fail(new Refusal("token-expired", "the token has expired; get a new one"));
    else this.timer = world.after(Math.min(leftMs, AHEAD_MS), () => this.watchToken(access));
  }

  /** A sign of life. The subscription may have been changed meanwhile. */
  private async refresh(access: Access): Promise<void> {
    this.told = await this.parts.service.get(this.caller!.names.project, this.id, access);
    this.tellProperties();
  }

  private tellProperties(): void {
    const { isExactlyOnce, isOrdered } = this.told!;
    const properties = { exactlyOnceDeliveryEnabled: isExactlyOnce, messageOrderingEnabled: isOrdered };
    this.write({ subscriptionProperties: properties }, 0);
  }

  private async modify({ modifyDeadlineAckIds: ids, modifyDeadlineSeconds: seconds }: StreamingPullWire) {
    if (ids.length !== seconds.length) {
      throw new Refusal(
        "bad-request",
        "modify_deadline_ack_ids and modify_deadline_seconds must have the same length.",
      );
    }
    const { service } = this.parts;
    const { names, access } = this.caller!;
    const outcomes: AckOutcome[] = new Array(ids.length).fill("done");
    const placesOf = new Map<number, number[]>();
    for (const [i, asked] of seconds.entries()) {
      const places = placesOf.get(asked);
      if (places === undefined) placesOf.set(asked, [i]);
      else places.push(i);
    }
    for (const [asked, places] of placesOf) {
      const some = places.map((i) => ids[i]!);
      const ms = modifiedMs(asked);
      const results = await service.modifyAckDeadline(names.project, this.id, some, ms, access);
      for (const [i, place] of places.entries()) outcomes[place] = results[i]!;
    }
    return confirmation(ids, outcomes);
  }

  private deliver(messages: readonly Delivery[]): void {
    for (const { receivedMessages, bytes } of batchesOf(messages, this.told!, this.parts.limits.responseBytes)) {
      this.write({ receivedMessages }, bytes);
    }
  }

  private write(response: object, bytes: number): void {
    if (this.isOver) return;
    const { unsentBytes: most, unsentResponses: mostResponses } = this.parts.limits;
    this.unsentBytes += bytes;
    this.unsentResponses++;
    const isTaken = this.call.write(response, () => {
      this.unsentBytes -= bytes;
      if (--this.unsentResponses <= mostResponses) this.readOn();
      if (!this.isHeld || this.unsentBytes > most || this.isOver) return;
      this.isHeld = false;
      this.stream?.resume();
    });
    if ((isTaken && this.unsentBytes <= most) || this.isHeld) return;
    this.isHeld = true;
    this.stream?.pause();
  }

  /** The server shuts down. */
  sendHome(): void {
    this.call.fail(endOf("draining", this.id));
  }

  /** What is outstanding stays leased until it expires. */
  private stop(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.timer?.();
    this.readOn();
    this.stream?.close();
    this.leave();
    this.parts.audience.go(this);
  }
}

/** 0 or less is no limit of the client's. */
function limited(asked: Int64, most: number): number {
  const limit = Number(asked);
  return limit > 0 ? Math.min(limit, most) : most;
}

function confirmation(ids: readonly string[], outcomes: readonly AckOutcome[]): object {
  const those = (outcome: AckOutcome) => ids.filter((_, i) => outcomes[i] === outcome);
  return { ackIds: those("done"), invalidAckIds: those("gone"), temporaryFailedAckIds: those("failed") };
}
