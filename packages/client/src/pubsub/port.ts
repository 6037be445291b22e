/**
 * The port that the library stands on: the service of pull, for one project and one caller. `@sluice/server/pubsub` implements it
 * with the service in process, `wire-port.ts` with a server.
 *
 * Invariants: the library holds every rule of subscribers; an implementation only carries calls. A call that fails throws an error
 * whose `code` is one of the error table, and `errorOf` puts it into the library's terms.
 */
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

export interface PullPort {
  createTopic(topic: string): Promise<Created<Topic>>;
  topic(topic: string): Promise<Topic>;
  topics(page: ListPage): Promise<Listed<Topic>>;
  deleteTopic(topic: string): Promise<void>;
  /** Stores messages in their order. The library makes one call at a time per topic. */
  publish(topic: string, messages: readonly NewMessage[]): Promise<string[]>;

  create(name: string, asked: NewSubscription): Promise<Created<Subscription>>;
  get(name: string): Promise<Subscription>;
  list(page: ListPage): Promise<Listed<Subscription>>;
  update(name: string, change: SubscriptionChange): Promise<Subscription>;
  delete(name: string): Promise<void>;
  detach(name: string): Promise<void>;
  seek(name: string, to: SeekTarget): Promise<void>;
  redrive(name: string): Promise<number>;
  createSnapshot(snapshot: string, subscription: string): Promise<Snapshot>;
  deleteSnapshot(snapshot: string): Promise<void>;

  open(name: string, asked: StreamOptions, to: StreamEvents): Promise<PullStream>;
  /** One outcome per ack id, in their order. */
  acknowledge(name: string, ackIds: readonly string[]): Promise<readonly AckOutcome[]>;
  nack(name: string, ackIds: readonly string[], delayMs: number | undefined): Promise<readonly AckOutcome[]>;
  modifyAckDeadline(name: string, ackIds: readonly string[], deadlineMs: number): Promise<readonly AckOutcome[]>;

  /** Flushes and closes. No call may follow. */
  close(): Promise<void>;
}

export type Cancel = () => void;

/** Time and turns of the event loop; tests bring their own. */
export interface QueueWorld {
  /** Ms since some fixed moment; it never falls. */
  monotonicMs(): number;
  after(ms: number, task: () => void): Cancel;
  /** Runs `task` in a later turn, after the inputs that have already arrived. */
  soon(task: () => void): void;
}
