/**
 * Topics as doors of pull use them: create, look at, list, label, delete, publish. A topic is a stream; what a stream does not know
 * of it is stored beside it. Part of the service.
 *
 * Invariants: a message that is published is durable and in the order of the call. A message keeps its attributes and its key in
 * the envelope of the stream, so readers through any other door see them.
 */
import type { Position } from "@sluice/protocol";
import type { Access } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import { isReserved } from "../core/reserved.ts";
import { isAmongShards } from "../core/shard-path.ts";
import { put } from "../engine/draft.ts";
import type { Append, AppendOutcome } from "../streams/append.ts";
import type { AppendRequest } from "../streams/bodies.ts";
import { DEFAULT_CONTENT_TYPE, STREAM } from "../streams/state.ts";
import type { Created, Listed, ListPage, NewMessage, Topic, TopicSettings } from "./contract.ts";
import { contentTypeOf } from "./dead-letters.ts";
import { attributesOf, checkMessage, messageIdOf } from "./message.ts";
import { demand, listed, type PullParts } from "./parts.ts";
import { TOPIC_META, topicEntity, topicTable } from "./state.ts";
import { topicNotFound } from "./topic-ref.ts";

/** Content types that are remembered, so that a publish need not ask. */
const MAX_TYPES = 10_000;

export class Topics {
  private readonly types = new Map<string, string>();

  constructor(private readonly parts: PullParts) {}

  async create(project: string, topic: string, settings: TopicSettings, access: Access): Promise<Created<Topic>> {
    const { streams } = this.parts;
    await demand(access, project, "create-topic", "write", topic);
    const { retentionMs } = settings;
    const config = { contentType: DEFAULT_CONTENT_TYPE, retention: retentionMs && { maxAgeMs: retentionMs } };
    const outcome = await streams.create(project, topic, {
      config: { ...config, retention: config.retention || undefined },
      closed: false,
    });
    if (outcome.kind !== "created" && outcome.kind !== "exists" && outcome.kind !== "differs") {
      throw new Refusal(
        "stream-gone",
        `the topic ${JSON.stringify(topic)} was deleted and is kept for its forks; use another name`,
      );
    }
    const isNew = outcome.kind === "created";
    if (isNew) await this.store(project, topic, settings);
    return { value: await this.look(project, topic), isNew };
  }

  /** Changes the members that are present. */
  async update(project: string, topic: string, change: TopicSettings, access: Access): Promise<Topic> {
    await demand(access, project, "update-topic", "write", topic);
    const known = await this.look(project, topic);
    if ("retentionMs" in change && change.retentionMs !== known.retentionMs) {
      throw new Refusal("bad-request", "the retention of a topic is set at creation and cannot be changed");
    }
    await this.store(project, topic, change);
    return this.look(project, topic);
  }

  private store(project: string, topic: string, change: TopicSettings): Promise<void> {
    const { labels, opaque } = change;
    if (!("labels" in change) && !("opaque" in change)) return Promise.resolve();
    return this.parts.keepers.submit(topicEntity(project, topic), [TOPIC_META], (view) => {
      const settings = { ...view.get(topicTable, ""), ...(labels && { labels }), ...(opaque && { opaque }) };
      return { outcome: undefined, changes: [put(topicTable, "", settings)] };
    });
  }

  async get(project: string, topic: string, access: Access): Promise<Topic> {
    await demand(access, project, "get-topic", "read-or-write", topic);
    return this.look(project, topic);
  }

  private async look(project: string, name: string): Promise<Topic> {
    const { streams, engine } = this.parts;
    const described = await streams.describe(project, name);
    if (described.kind !== "live") throw topicNotFound(name);
    const { rows } = await engine.load(topicEntity(project, name), [TOPIC_META]);
    const settings = rows[0] === undefined ? {} : topicTable.decode(rows[0]);
    const { createdAt, config } = described.meta;
    return { ...settings, name, createdAt, retentionMs: config.retention?.maxAgeMs };
  }

  async list(project: string, page: ListPage, access: Access): Promise<Listed<Topic>> {
    await demand(access, project, "list-topics", "read-or-write");
    return listed(this.parts, project, STREAM, page, async (path) => {
      if (isReserved(path) || isAmongShards(path) || !access.sees(path)) return undefined;
      // A topic that was just deleted may still be listed.
      return this.look(project, path).catch(() => undefined);
    });
  }

  async delete(project: string, topic: string, access: Access): Promise<void> {
    const { streams, keepers } = this.parts;
    await demand(access, project, "delete-topic", "write", topic);
    const outcome = await streams.delete(project, topic);
    await keepers.submit(topicEntity(project, topic), [TOPIC_META], (view) => ({
      outcome: undefined,
      changes: view.exists ? [{ op: "destroy" }] : [],
    }));
    if (outcome.kind === "absent" || outcome.kind === "gone") throw topicNotFound(topic);
  }

  async publish(project: string, topic: string, messages: readonly NewMessage[], access: Access): Promise<string[]> {
    await demand(access, project, "publish", "write", topic);
    for (const message of messages) checkMessage(message);
    const contentType = await this.typeOf(project, topic);
    // All are checked before the first is stored, because the caller of a refused publish repeats it.
    const appends = runsOf(messages).map((run) => this.parts.streams.taken(topic, requestOf(run, contentType)));
    const ids = await Promise.all(appends.map((one) => this.append(project, topic, one)));
    return ids.flat();
  }

  private async typeOf(project: string, topic: string): Promise<string> {
    const key = `${project}/${topic}`;
    const known = this.types.get(key);
    if (known !== undefined) return known;
    const found = await contentTypeOf(this.parts.streams, project, topic);
    if (found === undefined) throw topicNotFound(topic);
    if (this.types.size >= MAX_TYPES) this.types.clear();
    this.types.set(key, found);
    return found;
  }

  private async append(project: string, topic: string, asked: Append): Promise<string[]> {
    const { streams } = this.parts;
    const outcome: AppendOutcome = await streams.appendAt(project, topic, asked);
    if (outcome.kind === "appended" || outcome.kind === "duplicate") {
      const { length } = asked.payloads;
      return asked.payloads.map((_, i) => messageIdOf(back(outcome.next, length - 1 - i), outcome.shard));
    }
    // The topic was deleted, or created again with another content type.
    this.types.delete(`${project}/${topic}`);
    if (outcome.kind === "wrong-type") {
      return this.append(project, topic, streams.taken(topic, { ...asked, contentType: outcome.contentType }));
    }
    if (outcome.kind === "closed") throw new Refusal("stream-closed", `the topic ${JSON.stringify(topic)} is closed`);
    throw topicNotFound(topic);
  }
}

function requestOf(run: readonly NewMessage[], contentType: string): AppendRequest {
  const [first] = run;
  return {
    payloads: run.map(({ data }) => data),
    contentType,
    close: false,
    messageId: first!.id,
    messageKey: first!.orderingKey || undefined,
    attributes: attributesOf(first!),
  };
}

function back({ generation, seq }: Position, by: number): Position {
  return { generation, seq: seq - by };
}

/** An append of several messages has at most this many bytes, because the largest body of a stream is that of one message. */
const RUN_BYTES = 64 * 1_024;

/** Messages without metadata that follow each other share one append. */
function runsOf(messages: readonly NewMessage[]): NewMessage[][] {
  const runs: NewMessage[][] = [];
  let plain: NewMessage[] | undefined;
  let bytes = 0;
  for (const message of messages) {
    const isPlain =
      message.attributes === undefined && !message.orderingKey && message.id === undefined && !message.deliverAtMs;
    bytes += message.data.length;
    if (isPlain && plain !== undefined && bytes <= RUN_BYTES) plain.push(message);
    else {
      bytes = message.data.length;
      const run = [message];
      runs.push(run);
      plain = isPlain ? run : undefined;
    }
  }
  return runs;
}
