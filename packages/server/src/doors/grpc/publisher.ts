/**
 * `google.pubsub.v1.Publisher`: topics, and publishing to them.
 *
 * Invariants: an answered publish is durable, in the order of its messages.
 */
import { Refusal } from "../../core/refusal.ts";
import type { NewMessage } from "../../pull/contract.ts";
import { type Caller, type MethodParts, maskOf, type Service, unary } from "./caller.ts";
import { TopicSchemas } from "./topic-schemas.ts";
import { settingsOf, topicChange, topicWire } from "./topics.ts";
import type { Masked, MessageWire, PageWire, TopicWire } from "./wire.ts";

const MAX_MESSAGES = 1_000;
/** What a client left out decodes to a plain array. */
const NO_DATA = new Uint8Array(0);

interface Publish {
  readonly topic: string;
  readonly messages: readonly MessageWire[];
}

interface OfTopic {
  readonly topic: string;
}

export function publisher(parts: MethodParts): Service {
  const { service, definitions } = parts;
  const schemas = new TopicSchemas(parts);
  return {
    CreateTopic: unary<TopicWire>(
      parts,
      ({ name }) => name,
      async ({ names, access }, asked) => {
        const path = names.topic(asked.name);
        const settings = settingsOf(asked, definitions);
        const { value, isNew } = await service.createTopic(names.project, path, settings, access);
        if (!isNew) throw new Refusal("stream-exists", `the topic ${path} exists`);
        return topicWire(value, names, definitions);
      },
    ),
    GetTopic: unary<OfTopic>(
      parts,
      ({ topic }) => topic,
      async ({ names, access }, { topic }) =>
        topicWire(await service.topic(names.project, names.topic(topic), access), names, definitions),
    ),
    UpdateTopic: unary<Masked & { readonly topic: TopicWire | null }>(
      parts,
      ({ topic }) => topic?.name ?? "",
      async ({ names, access }, { topic, updateMask }) => {
        const path = names.topic(topic!.name);
        const known = await service.topic(names.project, path, access);
        const change = topicChange(topic!, maskOf(updateMask), known, definitions);
        return topicWire(await service.updateTopic(names.project, path, change, access), names, definitions);
      },
    ),
    ListTopics: unary<PageWire & { readonly project: string }>(
      parts,
      ({ project }) => project,
      async ({ names, access }, asked) => {
        const { items, next = "" } = await service.topics(names.project, pageOf(asked), access);
        return { topics: items.map((topic) => topicWire(topic, names, definitions)), nextPageToken: next };
      },
    ),
    DeleteTopic: unary<OfTopic>(
      parts,
      ({ topic }) => topic,
      async ({ names, access }, { topic }) => {
        await service.deleteTopic(names.project, names.topic(topic), access);
        return {};
      },
    ),
    Publish: unary<Publish>(
      parts,
      ({ topic }) => topic,
      async (caller, request) => ({ messageIds: await publish(parts, schemas, caller, request) }),
    ),
    ListTopicSubscriptions: unary<PageWire & OfTopic>(
      parts,
      ({ topic }) => topic,
      async ({ names, access }, asked) => {
        const path = names.topic(asked.topic);
        await service.topic(names.project, path, access);
        const { items, next = "" } = await service.subscriptionsOf(names.project, path, pageOf(asked), access);
        return { subscriptions: items.map((id) => names.subscriptionName(id)), nextPageToken: next };
      },
    ),
    ListTopicSnapshots: unary<PageWire & OfTopic>(
      parts,
      ({ topic }) => topic,
      async ({ names, access }, asked) => {
        const path = names.topic(asked.topic);
        await service.topic(names.project, path, access);
        const { items, next = "" } = await service.snapshotsOf(names.project, path, pageOf(asked), access);
        return { snapshots: items.map((id) => names.snapshotName(id)), nextPageToken: next };
      },
    ),
    DetachSubscription: unary<{ readonly subscription: string }>(
      parts,
      ({ subscription }) => subscription,
      async ({ names, access }, { subscription }) => {
        await service.detach(names.project, names.subscription(subscription), access);
        return {};
      },
    ),
  };
}

export function pageOf({ pageSize, pageToken }: PageWire) {
  if (pageSize < 0) throw new Refusal("bad-request", `Invalid page_size given: ${pageSize} is negative.`);
  return { after: pageToken || undefined, limit: pageSize || undefined };
}

async function publish(
  { service }: MethodParts,
  schemas: TopicSchemas,
  caller: Caller,
  { topic, messages }: Publish,
): Promise<string[]> {
  const { names, access } = caller;
  const path = names.topic(topic);
  if (messages.length === 0 || messages.length > MAX_MESSAGES) {
    const count = messages.length;
    throw new Refusal("bad-request", `Invalid message_count given: ${count} is not from 1 to ${MAX_MESSAGES}.`);
  }
  await schemas.check(caller, path, messages);
  return service.publish(names.project, path, messages.map(newMessage), access);
}

/** Without empty attributes, because messages without metadata share an append. */
function newMessage({ data, attributes, orderingKey }: MessageWire): NewMessage {
  const message: { -readonly [K in keyof NewMessage]: NewMessage[K] } = { data: data.length === 0 ? NO_DATA : data };
  for (const _ in attributes) {
    message.attributes = { ...attributes };
    break;
  }
  if (orderingKey !== "") message.orderingKey = orderingKey;
  return message;
}
