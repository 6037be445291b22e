/**
 * The port of the library over the wire: calls and answers to messages as frames of `/pull`, streams of each subscriber over a
 * connection of their own, publishes over HTTP.
 *
 * Invariants: a subscriber that reads slowly holds up no other one, and no call. An answer to a message is repeated until it is
 * confirmed, refused or given up. A call whose repetition would do harm fails with code 14 when its answer is lost.
 */
import { header } from "@sluice/protocol";
import type {
  AckOutcome,
  Created,
  Listed,
  ListPage,
  NewMessage,
  NewSubscription,
  PullStream,
  SeekTarget,
  Snapshot,
  StreamEvents,
  StreamOptions,
  Subscription,
  SubscriptionChange,
  Topic,
} from "@sluice/protocol/pull";
import { Backoff } from "../backoff.ts";
import type { Connection } from "../connection.ts";
import { hasCode, SluiceError } from "../error.ts";
import { levelsOf } from "../path.ts";
import type { SocketClass } from "../text-socket.ts";
import type { PullPort } from "./port.ts";
import { Wire } from "./wire.ts";

/** Ack ids in one frame, each of at most 60 bytes: a frame may have 64 KiB. */
const MAX_LISTED = 500;

interface Subscriber {
  readonly wire: Wire;
  users: number;
}

export class WirePort implements PullPort {
  private readonly calls: Wire;
  /** By the name that the streams of a subscriber share. */
  private readonly subscribers = new Map<string, Subscriber>();
  private readonly rest = { untilMs: 0 };

  constructor(
    private readonly connection: Connection,
    private readonly Socket: SocketClass,
  ) {
    this.calls = this.newWire();
  }

  private newWire(): Wire {
    return new Wire(this.connection, this.Socket, this.rest);
  }

  async createTopic(topic: string): Promise<Created<Topic>> {
    const { topic: value, isNew } = await this.calls.ask("createTopic", { topic });
    return { value: value as Topic, isNew: isNew === true };
  }

  async topic(topic: string): Promise<Topic> {
    return (await this.calls.ask("topic", { topic })).topic as Topic;
  }

  async topics(page: ListPage): Promise<Listed<Topic>> {
    const { topics, next } = await this.calls.ask("topics", page);
    return { items: topics as Topic[], next: next as string | undefined };
  }

  async deleteTopic(topic: string): Promise<void> {
    await this.calls.once("deleteTopic", { topic });
  }

  /**
   * Over HTTP, because a frame of a WebSocket takes 64 KiB and a message may have more. A call is repeated only if the server has
   * said that it stored nothing.
   */
  async publish(topic: string, messages: readonly NewMessage[]): Promise<string[]> {
    const backoff = new Backoff(this.connection.retries);
    const call = {
      method: "POST",
      path: `topics/${pathOf(topic)}`,
      headers: { [header.contentType]: "application/json" },
      body: JSON.stringify({ messages: messages.map(encoded) }),
    };
    for (;;) {
      try {
        const { text } = await this.connection.once(call);
        return JSON.parse(text).messageIds;
      } catch (error) {
        if (!hasCode(error, "overloaded", "memory-full", "project-limit", "draining")) throw error;
        await backoff.wait(error);
      }
    }
  }

  async create(subscription: string, asked: NewSubscription): Promise<Created<Subscription>> {
    const { subscription: value, isNew } = await this.calls.ask("create", { subscription, ...asked });
    return { value: value as Subscription, isNew: isNew === true };
  }

  async get(subscription: string): Promise<Subscription> {
    return (await this.calls.ask("get", { subscription })).subscription as Subscription;
  }

  async list(page: ListPage): Promise<Listed<Subscription>> {
    const { subscriptions, next } = await this.calls.ask("list", page);
    return { items: subscriptions as Subscription[], next: next as string | undefined };
  }

  async update(subscription: string, change: SubscriptionChange): Promise<Subscription> {
    return (await this.calls.ask("update", { subscription, ...change })).subscription as Subscription;
  }

  async delete(subscription: string): Promise<void> {
    await this.calls.once("delete", { subscription });
  }

  async detach(subscription: string): Promise<void> {
    await this.calls.ask("detach", { subscription });
  }

  async seek(subscription: string, to: SeekTarget): Promise<void> {
    await this.calls.once("seek", { subscription, ...to });
  }

  async redrive(subscription: string): Promise<number> {
    return (await this.calls.once("redrive", { subscription })).messages as number;
  }

  async createSnapshot(snapshot: string, subscription: string): Promise<Snapshot> {
    return (await this.calls.once("createSnapshot", { snapshot, subscription })).snapshot as Snapshot;
  }

  async deleteSnapshot(snapshot: string): Promise<void> {
    await this.calls.once("deleteSnapshot", { snapshot });
  }

  async open(name: string, asked: StreamOptions, to: StreamEvents): Promise<PullStream> {
    const share = asked.shareOf ?? "";
    const subscriber = this.subscribers.get(share) ?? { wire: this.newWire(), users: 0 };
    this.subscribers.set(share, subscriber);
    subscriber.users++;
    let isOver = false;
    const leave = () => {
      if (isOver) return;
      isOver = true;
      if (--subscriber.users > 0) return;
      this.subscribers.delete(share);
      subscriber.wire.close();
    };
    const ended: StreamEvents["ended"] = (why) => {
      leave();
      to.ended(why);
    };
    try {
      const stream = await subscriber.wire.open(name, asked, {
        deliver: (messages) => to.deliver(messages),
        notice: (what) => to.notice?.(what),
        ended,
      });
      return {
        ...stream,
        close: () => {
          stream.close();
          leave();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  acknowledge(subscription: string, ackIds: readonly string[]): Promise<readonly AckOutcome[]> {
    return this.answer("ack", { subscription }, ackIds);
  }

  nack(subscription: string, ackIds: readonly string[], delayMs: number | undefined): Promise<readonly AckOutcome[]> {
    return this.answer("nack", { subscription, delayMs }, ackIds);
  }

  modifyAckDeadline(
    subscription: string,
    ackIds: readonly string[],
    deadlineMs: number,
  ): Promise<readonly AckOutcome[]> {
    return this.answer("extend", { subscription, deadlineMs }, ackIds);
  }

  private async answer(type: string, members: object, ackIds: readonly string[]): Promise<readonly AckOutcome[]> {
    const asked: Promise<readonly AckOutcome[]>[] = [];
    for (let at = 0; at < ackIds.length; at += MAX_LISTED) {
      const ids = ackIds.slice(at, at + MAX_LISTED);
      asked.push(
        this.calls.ask(type, { ...members, ackIds: ids }).then(
          ({ outcomes }) => outcomes as AckOutcome[],
          () => ids.map((): AckOutcome => "failed"),
        ),
      );
    }
    return (await Promise.all(asked)).flat();
  }

  async close(): Promise<void> {
    this.calls.close();
    for (const { wire } of this.subscribers.values()) wire.close();
  }
}

function pathOf(topic: string): string {
  try {
    return levelsOf(topic, "the name of a topic");
  } catch (cause) {
    throw new SluiceError("bad-path", (cause as TypeError).message, { cause });
  }
}

function encoded({ data, ...rest }: NewMessage): object {
  return { ...rest, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64") };
}
