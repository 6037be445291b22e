/**
 * A sharded topic as a client calls it, and its stored streams. The tests of this folder use it.
 *
 * Invariants: every call is an HTTP request, except `stored`, which asks the engine.
 */
import { expect } from "vitest";
import type { Streams } from "../../packages/server/src/streams/service.ts";
import { type Answer, Api } from "../sessions/api.ts";
import { ask } from "../support/ask.ts";

export type Bag = Record<string, string>;
const JSON_TYPE = { "Content-Type": "application/json" };

export class Topic {
  readonly api: Api;

  constructor(
    readonly url: string,
    readonly path = "orders",
    readonly shards = 4,
    send = ask,
  ) {
    this.api = new Api(url, "default", undefined, send);
  }

  /** Another topic on the same server. */
  another(path: string, shards: number): Topic {
    return new Topic(this.url, path, shards);
  }

  get paths(): string[] {
    return Array.from({ length: this.shards }, (_, i) => `${this.path}/$shard/${i}`);
  }

  put(headers: Bag = {}): Promise<Answer> {
    const bag = { ...JSON_TYPE, "Stream-Shards": String(this.shards), ...headers };
    return this.api.call("PUT", `/stream/${this.path}`, undefined, bag);
  }

  async create(headers: Bag = {}): Promise<this> {
    const answer = await this.put(headers);
    expect(answer.status, answer.text).toBe(201);
    return this;
  }

  post(message: unknown, headers: Bag = {}): Promise<Answer> {
    return this.api.call("POST", `/stream/${this.path}`, JSON.stringify(message), { ...JSON_TYPE, ...headers });
  }

  /** Appends, and returns the shard that took the message. */
  async add(message: unknown, headers: Bag = {}): Promise<number> {
    const answer = await this.post(message, headers);
    expect([200, 204], answer.text).toContain(answer.status);
    return Number(answer.headers.get("stream-shard"));
  }

  close(): Promise<Answer> {
    return this.api.call("POST", `/stream/${this.path}`, undefined, { "Stream-Closed": "true" });
  }

  delete(): Promise<Answer> {
    return this.api.call("DELETE", `/stream/${this.path}`);
  }

  head(path = this.path): Promise<Answer> {
    return this.api.call("HEAD", `/stream/${path}`);
  }

  get(query = "?offset=-1", path = this.path): Promise<Answer> {
    return this.api.call("GET", `/stream/${path}${query}`);
  }

  /** The messages of each shard, in order. */
  async messages(): Promise<unknown[][]> {
    const shards: unknown[][] = [];
    for (const path of this.paths) {
      const answer = await this.get("?offset=-1", path);
      expect(answer.status, answer.text).toBe(200);
      shards.push(answer.body);
    }
    return shards;
  }

  /** Whether each shard is closed; undefined for a missing one. */
  async closed(): Promise<(boolean | undefined)[]> {
    const heads = await Promise.all(this.paths.map((path) => this.head(path)));
    return heads.map(({ status, headers }) => (status === 200 ? headers.get("stream-closed") === "true" : undefined));
  }
}

/** Every stream that the engine stores, in any state. */
export async function stored(streams: Streams): Promise<readonly string[]> {
  return (await streams.list("default", "", "", 1_000)).ids;
}
