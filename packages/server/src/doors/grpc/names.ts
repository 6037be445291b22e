/**
 * Names of resources, `projects/P/topics/T`, as one request uses them: what each means here, and which one a refusal is about.
 *
 * Invariants: a topic's name is the percent-encoded path of its stream; names of other resources are taken as they are. All names of
 * a request are of one project, because a caller is identified for one.
 */
import { Refusal } from "../../core/refusal.ts";

export const DELETED_TOPIC = "_deleted-topic_";

type Kind = "topics" | "subscriptions" | "snapshots" | "schemas";

const PROJECT = /^projects\/([^/]+)(?:\/|$)/;

/** The project of any name. Throws a Refusal if the name has none. */
export function projectOf(name: string): string {
  const match = PROJECT.exec(name);
  if (match === null) throw badName(name, "it must start with projects/PROJECT");
  return match[1]!;
}

export class Names {
  /** The last resource of each kind that was asked about. */
  private readonly asked = new Map<Kind, string>();

  constructor(readonly project: string) {}

  /** The path of the stream that is the topic. */
  topic(name: string): string {
    const id = this.idOf("topics", name);
    if (id.includes("+")) throw badName(name, "a topic may not contain +");
    try {
      return decodeURIComponent(id);
    } catch {
      throw badName(name, "% must be followed by the two hexadecimal digits of a byte of UTF-8");
    }
  }

  subscription(name: string): string {
    return this.idOf("subscriptions", name);
  }

  snapshot(name: string): string {
    return this.idOf("snapshots", name);
  }

  /** With its revision, `SCHEMA@REVISION`, if the name has one. */
  schema(name: string): string {
    return this.idOf("schemas", name);
  }

  private idOf(kind: Kind, name: string): string {
    const start = `projects/${this.project}/${kind}/`;
    const id = name.slice(start.length);
    if (!name.startsWith(start) || id === "" || id.includes("/")) throw badName(name, `it must be ${start}ID`);
    this.asked.set(kind, id);
    return id;
  }

  topicName(path: string): string {
    return `projects/${this.project}/topics/${encodeURIComponent(path)}`;
  }

  subscriptionName(id: string): string {
    return `projects/${this.project}/subscriptions/${id}`;
  }

  snapshotName(id: string): string {
    return `projects/${this.project}/snapshots/${id}`;
  }

  schemaName(id: string): string {
    return `projects/${this.project}/schemas/${id}`;
  }

  /** The resource that this refusal is about, as Google's texts name it; undefined if it is about none. */
  named({ code }: Refusal): string | undefined {
    if (code.startsWith("stream-")) return this.asked.get("topics");
    if (code.startsWith("subscription-")) return this.asked.get("subscriptions");
    if (code.startsWith("snapshot-")) return this.asked.get("snapshots");
    if (code.startsWith("schema-")) return this.asked.get("schemas");
    return undefined;
  }
}

function badName(name: string, why: string): Refusal {
  return new Refusal("bad-path", `Invalid resource name given (name=${name}): ${why}.`);
}
