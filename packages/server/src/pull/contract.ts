/**
 * What the pull feature offers to every door: topics, subscriptions with leases on single messages, snapshots. The WebSocket
 * `/pull`, the gRPC door and the library in process call it; `service.ts` implements it.
 *
 * A topic is a stream or a sharded topic. A subscription (in the rest of Sluice: a puller) is a durable cursor over one topic.
 *
 * Invariants: every method checks what it is given and demands its own permission, so a door only parses and renders. Expected
 * refusals are thrown as `Refusal`. An acknowledgement resolves when it is durable, and an acknowledged message is never
 * delivered again, unless the subscription seeks. A message that is not acknowledged is always delivered again.
 */
import type {
  AckOutcome,
  Created,
  Delivery,
  Listed,
  ListPage,
  NewMessage,
  NewSubscription,
  Pull,
  PullStream,
  SeekTarget,
  Snapshot,
  SnapshotSettings,
  StreamEvents,
  StreamOptions,
  Subscription,
  SubscriptionChange,
  SubscriptionInfo,
  Topic,
  TopicSettings,
} from "@sluice/protocol/pull";
import type { Access } from "../core/action.ts";

export type * from "@sluice/protocol/pull";

// Schemas.

export interface NewSchema {
  readonly type: "AVRO" | "PROTOCOL_BUFFER";
  readonly definition: string;
}

export interface SchemaRevision {
  readonly revision: string;
  readonly createdAt: number;
  readonly definition: string;
}

export interface Schema {
  readonly name: string;
  readonly type: NewSchema["type"];
  /** The newest last. */
  readonly revisions: readonly SchemaRevision[];
  /** As `TopicSettings.opaque`. */
  readonly opaque?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Methods throw a Refusal with one of these codes: `stream-not-found` (the topic), `subscription-not-found`,
 * `snapshot-not-found`, `snapshot-exists`, `schema-not-found`, `subscription-detached`, `bad-filter`, `bad-request`, `bad-path`, `reserved-name`,
 * `forbidden`, `too-large`, and those of a store that does not answer.
 */
export interface PullService {
  createTopic(project: string, topic: string, settings: TopicSettings, access: Access): Promise<Created<Topic>>;
  updateTopic(project: string, topic: string, change: TopicSettings, access: Access): Promise<Topic>;
  topic(project: string, topic: string, access: Access): Promise<Topic>;
  topics(project: string, page: ListPage, access: Access): Promise<Listed<Topic>>;
  deleteTopic(project: string, topic: string, access: Access): Promise<void>;
  /** The names of the subscriptions of a topic that are not detached. */
  subscriptionsOf(project: string, topic: string, page: ListPage, access: Access): Promise<Listed<string>>;
  snapshotsOf(project: string, topic: string, page: ListPage, access: Access): Promise<Listed<string>>;
  /** Resolves with the message ids when all messages are durable. Messages are stored in their order. */
  publish(project: string, topic: string, messages: readonly NewMessage[], access: Access): Promise<string[]>;

  create(project: string, name: string, asked: NewSubscription, access: Access): Promise<Created<Subscription>>;
  get(project: string, name: string, access: Access): Promise<Subscription>;
  /** As `get`, with its backlog: a look at every log of the topic, and a question to the node that serves the subscription. */
  info(project: string, name: string, access: Access): Promise<SubscriptionInfo>;
  list(project: string, page: ListPage, access: Access): Promise<Listed<Subscription>>;
  update(project: string, name: string, change: SubscriptionChange, access: Access): Promise<Subscription>;
  delete(project: string, name: string, access: Access): Promise<void>;
  /** Ends delivery for good and drops the backlog. */
  detach(project: string, name: string, access: Access): Promise<void>;

  pull(project: string, name: string, asked: Pull, access: Access): Promise<readonly Delivery[]>;
  open(project: string, name: string, asked: StreamOptions, to: StreamEvents, access: Access): Promise<PullStream>;
  /** One outcome per ack id, in their order. */
  acknowledge(project: string, name: string, ackIds: readonly string[], access: Access): Promise<AckOutcome[]>;
  /** 0 gives the messages back, as `nack` without a delay does. Not durable: leases live in memory. */
  modifyAckDeadline(
    project: string,
    name: string,
    ackIds: readonly string[],
    deadlineMs: number,
    access: Access,
  ): Promise<AckOutcome[]>;
  /** Without a delay the retry policy decides when the message comes again. */
  nack(
    project: string,
    name: string,
    ackIds: readonly string[],
    delayMs: number | undefined,
    access: Access,
  ): Promise<AckOutcome[]>;
  /** Voids every outstanding ack id. */
  seek(project: string, name: string, to: SeekTarget, access: Access): Promise<void>;
  /** Publishes this subscription's dead letters to its topic again; resolves with their number. */
  redrive(project: string, name: string, access: Access): Promise<number>;

  createSnapshot(
    project: string,
    snapshot: string,
    subscription: string,
    settings: SnapshotSettings,
    access: Access,
  ): Promise<Snapshot>;
  snapshot(project: string, snapshot: string, access: Access): Promise<Snapshot>;
  snapshots(project: string, page: ListPage, access: Access): Promise<Listed<Snapshot>>;
  updateSnapshot(project: string, snapshot: string, change: SnapshotSettings, access: Access): Promise<Snapshot>;
  deleteSnapshot(project: string, snapshot: string, access: Access): Promise<void>;

  createSchema(project: string, name: string, asked: NewSchema, access: Access): Promise<Created<Schema>>;
  schema(project: string, name: string, access: Access): Promise<Schema>;
  schemas(project: string, page: ListPage, access: Access): Promise<Listed<Schema>>;
  commitSchema(project: string, name: string, asked: NewSchema, access: Access): Promise<Schema>;
  rollbackSchema(project: string, name: string, revision: string, access: Access): Promise<Schema>;
  deleteSchemaRevision(project: string, name: string, revision: string, access: Access): Promise<Schema>;
  updateSchema(project: string, name: string, opaque: Schema["opaque"], access: Access): Promise<Schema>;
  deleteSchema(project: string, name: string, access: Access): Promise<void>;
}
