/**
 * Topics and snapshots between Google's messages and those of pull.
 *
 * Invariants: members that mean nothing to the server are kept and given back as they came.
 */
import { Refusal } from "../../core/refusal.ts";
import type { Snapshot, Topic, TopicSettings } from "../../pull/contract.ts";
import type { Definitions } from "./definitions.ts";
import type { Names } from "./names.ts";
import { msOf, type SchemaSettingsWire, spanOf, type TopicWire } from "./wire.ts";

const TYPE = "google.pubsub.v1.Topic";
const ACTIVE = 1;

/** The members that are kept. */
const KEPT = [
  "messageStoragePolicy",
  "kmsKeyName",
  "schemaSettings",
  "ingestionDataSourceSettings",
  "messageTransforms",
] as const;
/** What an update may name. */
const CHANGEABLE = new Set<string>([...KEPT, "labels", "messageRetentionDuration"]);

export function settingsOf(wire: TopicWire, definitions: Definitions): TopicSettings {
  const { labels, messageRetentionDuration: retention } = wire;
  return {
    labels: { ...labels },
    opaque: keptOf(wire, definitions),
    ...(retention !== null && { retentionMs: msOf(retention) }),
  };
}

/** The change that an update asks for. `known` has the members that it leaves as they are. */
export function topicChange(wire: TopicWire, mask: ReadonlySet<string>, known: Topic, definitions: Definitions) {
  checkMask(mask, CHANGEABLE);
  const asked = settingsOf(wire, definitions);
  const kept = KEPT.filter((member) => mask.has(member));
  const change: { -readonly [K in keyof TopicSettings]: TopicSettings[K] } = {};
  if (mask.has("labels")) change.labels = asked.labels;
  if (mask.has("messageRetentionDuration")) change.retentionMs = asked.retentionMs;
  if (kept.length > 0) change.opaque = replaced(known.opaque, asked.opaque, kept);
  return change;
}

/** Throws a Refusal for members that cannot be changed. */
export function checkMask(mask: ReadonlySet<string>, changeable: ReadonlySet<string>): void {
  if (mask.size === 0) throw new Refusal("bad-request", "The update_mask in the request must be set and not empty.");
  for (const member of mask) {
    if (!changeable.has(member))
      throw new Refusal("bad-request", `Invalid update_mask provided: ${member} is immutable.`);
  }
}

export function replaced(known: TopicSettings["opaque"], asked: TopicSettings["opaque"], members: readonly string[]) {
  const result: Record<string, unknown> = { ...known };
  for (const member of members) {
    if (asked?.[member] === undefined) delete result[member];
    else result[member] = asked[member];
  }
  return result;
}

function keptOf(wire: TopicWire, definitions: Definitions): Readonly<Record<string, unknown>> {
  const json = definitions.toJson(TYPE, wire);
  return Object.fromEntries(KEPT.flatMap((member) => (json[member] === undefined ? [] : [[member, json[member]]])));
}

export function topicWire(topic: Topic, names: Names, definitions: Definitions): object {
  const { name, labels = {}, retentionMs, opaque = {} } = topic;
  return {
    ...definitions.fromJson(TYPE, opaque),
    name: names.topicName(name),
    labels,
    state: ACTIVE,
    ...(retentionMs !== undefined && { messageRetentionDuration: spanOf(retentionMs) }),
  };
}

/** The schema that messages of the topic must follow; undefined for any message. */
export function schemaOf({ opaque }: Topic, definitions: Definitions): SchemaSettingsWire | undefined {
  if (opaque?.schemaSettings === undefined) return undefined;
  return (definitions.fromJson(TYPE, opaque) as TopicWire).schemaSettings ?? undefined;
}

export function snapshotWire({ name, topic, expiresAt, labels = {} }: Snapshot, names: Names): object {
  return { name: names.snapshotName(name), topic: names.topicName(topic), expireTime: spanOf(expiresAt), labels };
}
