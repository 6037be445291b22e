/**
 * Dead letters: messages that a subscription could not deliver within its attempts, in the dead-letter topic. The dispatcher puts
 * them there, a redrive publishes them to their topic again.
 *
 * Invariants: a dead letter names its source in the attributes that Google's clients read. A redrive removes them again.
 */
import { formatOffset } from "@sluice/protocol";
import type { Entity, LoggedMessage } from "../engine/contract.ts";
import type { Reason } from "../leases/lease-core.ts";
import type { Streams } from "../streams/service.ts";

const PREFIX = "CloudPubSubDeadLetterSource";
const COUNT = `${PREFIX}DeliveryCount`;
const SUBSCRIPTION = `${PREFIX}Subscription`;
const PROJECT = `${PREFIX}SubscriptionProject`;
const PUBLISHED = `${PREFIX}TopicPublishTime`;
const STREAM = "dead-stream";
const OFFSET = "dead-offset";
const REASON = "dead-reason";
const ADDED: ReadonlySet<string> = new Set([COUNT, SUBSCRIPTION, PROJECT, PUBLISHED, STREAM, OFFSET, REASON]);

export interface DeadLetter {
  readonly message: LoggedMessage;
  /** The stream of the message: the topic, or a shard of it. */
  readonly stream: string;
  readonly attempts: number;
  readonly why: Reason;
}

/** Appends a dead letter, and creates its topic first if need be. Throws if the topic does not take it. */
export async function buryIn(
  streams: Streams,
  { project, id: subscription }: Entity,
  deadLetterTopic: string,
  { message, stream, attempts, why }: DeadLetter,
): Promise<void> {
  const created = await streams.create(project, deadLetterTopic, { config: {}, closed: false });
  const contentType = "meta" in created ? created.meta.config.contentType : undefined;
  const offset = formatOffset(message.position);
  const outcome = await streams.append(project, deadLetterTopic, {
    payloads: [message.payload],
    contentType: contentType ?? (await contentTypeOf(streams, project, deadLetterTopic)),
    close: false,
    // A message may die in several subscriptions, and repeats of one letter must be told from that.
    messageId: `${subscription}/${stream}@${offset}`,
    messageKey: message.key,
    attributes: {
      ...message.attributes,
      [COUNT]: String(attempts),
      [SUBSCRIPTION]: subscription,
      [PROJECT]: project,
      [PUBLISHED]: new Date(message.at).toISOString(),
      [STREAM]: stream,
      [OFFSET]: offset,
      [REASON]: why,
    },
  });
  if (outcome.kind !== "appended" && outcome.kind !== "duplicate") {
    throw new Error(`the dead-letter topic ${deadLetterTopic} refuses messages: ${outcome.kind}`);
  }
}

export async function contentTypeOf(streams: Streams, project: string, path: string): Promise<string | undefined> {
  const described = await streams.describe(project, path);
  return described.kind === "live" ? described.meta.config.contentType : undefined;
}

/** Whether the message is a dead letter of this subscription. */
export function isLetterOf({ attributes }: LoggedMessage, subscription: string): boolean {
  return attributes?.[SUBSCRIPTION] === subscription;
}

/** The attributes that the message had before it died. */
export function originalAttributes({ attributes = {} }: LoggedMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(attributes).filter(([key]) => !ADDED.has(key)));
}
