/**
 * Where the topics and subscriptions of one `PubSub` live. It stands on a port, which opens with the first call, and every object of
 * that `PubSub` shares it.
 *
 * Invariants: two queues share nothing. Answers to messages that are given in one turn of the event loop share one call,
 * and so do publishes to one topic. Every
 * fault leaves as a `PubSubError`.
 */
import type {
  AckOutcome,
  Listed,
  NewMessage,
  NewSubscription,
  PullStream,
  SeekTarget,
  StreamEvents,
  StreamOptions,
  Subscription,
  SubscriptionChange,
  Topic,
} from "@sluice/protocol/pull";
import { CODE, errorOf, PubSubError } from "./errors.ts";
import type { PullPort, QueueWorld } from "./port.ts";
import { TopicPublisher } from "./topic-publisher.ts";

/** Gets the outcome of an answer. */
export type Told = (outcome: AckOutcome) => void;

/** Equal answers of one turn of the event loop to messages of one subscription, and the callbacks for their outcomes. */
interface Batch {
  readonly ids: string[];
  readonly told: Told[];
  send(port: PullPort, ids: readonly string[]): Promise<readonly AckOutcome[]>;
}

export class MessageQueue {
  /** The message streams that are open; `close` stops them. */
  readonly streams = new Set<{ stop(options: { readonly mode: "nack" }): Promise<void> }>();
  private opening: Promise<PullPort> | undefined;
  private isClosed = false;
  private batches = new Map<string, Batch>();
  private readonly publishers = new Map<string, TopicPublisher>();

  constructor(
    readonly world: QueueWorld,
    private readonly openPort: () => PullPort | Promise<PullPort>,
  ) {}

  private port(): Promise<PullPort> {
    if (this.isClosed) return Promise.reject(new PubSubError(CODE.failedPrecondition, "The PubSub is closed"));
    this.opening ??= Promise.resolve(this.openPort());
    return this.opening;
  }

  private async call<T>(what: (port: PullPort) => Promise<T>): Promise<T> {
    try {
      return await what(await this.port());
    } catch (fault) {
      throw errorOf(fault);
    }
  }

  createTopic(topic: string) {
    return this.call((port) => port.createTopic(topic));
  }

  deleteTopic(topic: string) {
    return this.call((port) => port.deleteTopic(topic));
  }

  topic(topic: string) {
    return this.call((port) => port.topic(topic));
  }

  topics(): Promise<Topic[]> {
    return this.call((port) => all((after) => port.topics({ after })));
  }

  publish(topic: string, messages: readonly NewMessage[]): Promise<string[]> {
    let publisher = this.publishers.get(topic);
    if (publisher === undefined) {
      publisher = new TopicPublisher({
        send: (batch) => this.call((port) => port.publish(topic, batch)),
        done: () => this.publishers.delete(topic),
        soon: (task) => this.world.soon(task),
      });
      this.publishers.set(topic, publisher);
    }
    return publisher.publish(messages);
  }

  createSubscription(name: string, asked: NewSubscription) {
    return this.call((port) => port.create(name, asked));
  }

  subscription(name: string) {
    return this.call((port) => port.get(name));
  }

  subscriptions(): Promise<Subscription[]> {
    return this.call((port) => all((after) => port.list({ after })));
  }

  updateSubscription(name: string, change: SubscriptionChange) {
    return this.call((port) => port.update(name, change));
  }

  deleteSubscription(name: string) {
    return this.call((port) => port.delete(name));
  }

  detachSubscription(name: string) {
    return this.call((port) => port.detach(name));
  }

  seek(name: string, to: SeekTarget) {
    return this.call((port) => port.seek(name, to));
  }

  redrive(name: string): Promise<number> {
    return this.call((port) => port.redrive(name));
  }

  createSnapshot(snapshot: string, subscription: string) {
    return this.call((port) => port.createSnapshot(snapshot, subscription));
  }

  deleteSnapshot(snapshot: string) {
    return this.call((port) => port.deleteSnapshot(snapshot));
  }

  /** Opens a stream of a subscription. */
  stream(name: string, asked: StreamOptions, to: StreamEvents): Promise<PullStream> {
    return this.call((port) => port.open(name, asked, to));
  }

  /** `told` gets the outcome. It is a callback, because a promise per message would cost more than the acknowledgement. */
  ack(name: string, ackId: string, told: Told): void {
    this.answer(`ack ${name}`, ackId, told, (port, ids) => port.acknowledge(name, ids));
  }

  nack(name: string, ackId: string, delayMs: number | undefined, told: Told): void {
    this.answer(`nack ${delayMs} ${name}`, ackId, told, (port, ids) => port.nack(name, ids, delayMs));
  }

  modifyAckDeadline(name: string, ackId: string, ms: number, told: Told): void {
    this.answer(`extend ${ms} ${name}`, ackId, told, (port, ids) => port.modifyAckDeadline(name, ids, ms));
  }

  private answer(key: string, ackId: string, told: Told, send: Batch["send"]): void {
    let batch = this.batches.get(key);
    if (batch === undefined) {
      if (this.batches.size === 0) this.world.soon(this.sendAnswers);
      batch = { ids: [], told: [], send };
      this.batches.set(key, batch);
    }
    batch.ids.push(ackId);
    batch.told.push(told);
  }

  private readonly sendAnswers = (): void => {
    const { batches } = this;
    this.batches = new Map();
    for (const { ids, told, send } of batches.values()) {
      this.call((port) => send(port, ids)).then(
        (outcomes) => {
          for (const [i, one] of told.entries()) one(outcomes[i]!);
        },
        () => {
          for (const one of told) one("failed");
        },
      );
    }
  };

  /** Gives back what is in flight, flushes and closes. */
  async close(): Promise<void> {
    await Promise.all([...this.streams].map((stream) => stream.stop({ mode: "nack" })));
    await Promise.all([...this.publishers.values()].map((publisher) => publisher.idle()));
    const port = await this.opening?.catch(() => undefined);
    this.isClosed = true;
    this.opening = undefined;
    await port?.close();
  }
}

/** Everything that a list has, page by page. */
async function all<T>(page: (after: string | undefined) => Promise<Listed<T>>): Promise<T[]> {
  const found: T[] = [];
  for (let after: string | undefined; ; ) {
    const { items, next } = await page(after);
    found.push(...items);
    if (next === undefined) return found;
    after = next;
  }
}
