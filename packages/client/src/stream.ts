/**
 * The handle of a stream: create, append, publish, read, close. Made by the client.
 *
 * Invariants: handles are cheap. All handles of a stream share its appender, so appends through two of them keep their
 * order.
 */
import { header, NOW } from "@sluice/protocol";
import type { Appender } from "./appender.ts";
import { type AppendResult, type Body, type Create, isJson, type Metadata, type PublishResult } from "./batch.ts";
import type { Call, Connection } from "./connection.ts";
import { Encoded } from "./encoded.ts";
import { SluiceError } from "./error.ts";
import { checkValue, parseValue, type Schema } from "./schema.ts";
import {
  type Gap,
  type PageOptions,
  type ReadOptions,
  type StreamItem,
  type StreamPage,
  StreamReader,
} from "./stream-reader.ts";

export interface StreamOptions<Input = unknown, Output = Input> {
  /** The content type for `append` and `create`; `application/json` by default. */
  readonly contentType?: string | undefined;
  /** Checks appended and read values, and gives both their types. */
  readonly schema?: Schema<Input, Output> | undefined;
  /**
   * The name of a writer that must be alone: the newest client under it takes over, and the appends of earlier clients are
   * refused with `producer-fenced`. Without it every client writes beside the others, under its own random name.
   *
   * `false` disables numbers: a request is sent once, and a failure is never retried. For a program that appends once and
   * exits, or that spreads messages without keys over the shards of a topic.
   */
  readonly producer?: string | false | undefined;
  /**
   * What the first `append` does when the stream does not exist: it creates the stream, with these limits if given; `false`
   * rejects with `stream-not-found`. A stream that this client has written to and that was deleted since is never created
   * again.
   */
  readonly create?: boolean | StreamLimits | undefined;
}

/** How long a stream lives and how much it keeps; by default everything, forever. */
export interface StreamLimits {
  /** The stream expires when it was not used for this long. */
  readonly ttlSeconds?: number | undefined;
  readonly expiresAt?: Date | undefined;
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeSeconds?: number | undefined;
}

export interface CreateOptions<Input = unknown> extends StreamLimits {
  /** The first messages, for streams of JSON. Ignored when the stream exists already. */
  readonly messages?: readonly Input[] | undefined;
  /** Starts as a fork of another stream, up to an offset. */
  readonly forkOf?: { readonly path: string; readonly offset?: string | undefined } | undefined;
  /** Creates a topic of this many shards behind one path. */
  readonly shards?: number | undefined;
  /** Creates the stream closed: it holds only its first messages. */
  readonly closed?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface StreamInfo extends StreamLimits {
  readonly contentType: string;
  /** The end of the stream: the next message lies after it. */
  readonly offset: string;
  readonly closed: boolean;
  readonly shards?: number | undefined;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface StreamParts {
  readonly connection: Connection;
  /** Throws when the client was closed. */
  readonly appender: () => Appender;
  /** The existing appender, if this client has appended to the stream. */
  readonly busyAppender: () => Appender | undefined;
  /** The address of another stream of the same project. */
  readonly sourceOf: (path: string) => string;
}

export class Stream<Input = unknown, Output = Input> {
  private readonly contentType: string;
  private readonly isJson: boolean;
  private readonly createMissing: Create | undefined;

  constructor(
    readonly path: string,
    private readonly address: string,
    private readonly parts: StreamParts,
    private readonly options: StreamOptions<Input, Output>,
  ) {
    this.contentType = options.contentType ?? "application/json";
    this.isJson = isJson(this.contentType);
    if (options.create !== false) this.createMissing = () => this.make();
  }

  /** Resolves when the message is durable. It is stored once, across retries. Creates the stream if it does not exist. */
  append(value: Input | Encoded, metadata?: Metadata): Promise<AppendResult> {
    return this.send(value, metadata, false);
  }

  /** Appends, waits for the copies into the sessions that follow the stream as far as the server does, and reports them. */
  publish(value: Input | Encoded, metadata?: Metadata): Promise<PublishResult> {
    return this.send(value, metadata, true) as Promise<PublishResult>;
  }

  /** Resolves when `append` has room: await it in a loop that does not await `append`. */
  async ready(): Promise<void> {
    await this.parts.busyAppender()?.ready();
  }

  /** Resolves when every append is acknowledged; rejects with the first failure since the last `flush`. */
  async flush(): Promise<void> {
    await this.parts.busyAppender()?.flush();
  }

  /** Yields every message once and in order, over any number of connections, and a gap where messages are missing. */
  async *read(options: ReadOptions = {}): AsyncGenerator<StreamItem<Output>, void, undefined> {
    const { schema } = this.options;
    for await (const batch of new StreamReader(this.parts.connection, this.address, options, "envelope").batches()) {
      for (const item of batch) {
        if (options.signal?.aborted) return;
        if (schema === undefined || item.type === "gap") yield item as StreamItem<Output>;
        else yield { ...item, value: await parseValue(schema, item.value, item.offset) };
      }
    }
  }

  /** Like `read`, but yields the bytes that the server sent, for a program that parses or stores them itself. */
  pages({ format, live, ...options }: PageOptions = {}): AsyncGenerator<StreamPage | Gap, void, undefined> {
    const polled = { ...options, live: live ? ("long-poll" as const) : false };
    return new StreamReader(this.parts.connection, this.address, polled, format).pages();
  }

  /** Succeeds also when the stream exists already with the same configuration; `created` tells which. */
  async create(options: CreateOptions<Input> = {}): Promise<StreamInfo & { readonly created: boolean }> {
    const { messages, ttlSeconds, expiresAt, maxMessages, maxBytes, maxAgeSeconds, forkOf, shards, closed, signal } =
      options;
    const body = messages && JSON.stringify(messages);
    const headers = {
      [header.contentType]: forkOf && this.options.contentType === undefined ? undefined : this.contentType,
      [header.streamTtl]: numeral(ttlSeconds),
      [header.streamExpiresAt]: expiresAt?.toISOString(),
      [header.streamMaxMessages]: numeral(maxMessages),
      [header.streamMaxBytes]: numeral(maxBytes),
      [header.streamMaxAgeSeconds]: numeral(maxAgeSeconds),
      [header.streamForkedFrom]: forkOf && this.parts.sourceOf(forkOf.path),
      [header.streamForkOffset]: forkOf?.offset,
      [header.streamShards]: numeral(shards),
      [header.streamClosed]: closed ? "true" : undefined,
    };
    const answer = await this.parts.connection.call({ method: "PUT", path: this.address, headers, body, signal });
    return { ...infoOf(answer.headers), created: answer.status === 201 };
  }

  async info({ signal }: CallOptions = {}): Promise<StreamInfo> {
    const { connection } = this.parts;
    const call: Call = { method: "HEAD", path: this.address, signal };
    try {
      return infoOf((await connection.call(call)).headers);
    } catch (error) {
      if (!(error instanceof SluiceError) || error.status === undefined) throw error;
    }
    // The answer to a HEAD has no body with the reason; the same request as a GET has one.
    await connection.call({ ...call, method: "GET", query: { offset: NOW } });
    // Another client created the stream in between.
    return infoOf((await connection.call(call)).headers);
  }

  /** Refuses further appends, after the pending ones are stored; readers at the end learn that the stream is closed. */
  async close({ signal }: CallOptions = {}): Promise<StreamInfo> {
    await this.flush();
    const headers = { [header.streamClosed]: "true" };
    const answer = await this.parts.connection.call({ method: "POST", path: this.address, headers, signal });
    return { ...infoOf(answer.headers), contentType: this.contentType };
  }

  async delete({ signal }: CallOptions = {}): Promise<void> {
    await this.parts.connection.call({ method: "DELETE", path: this.address, signal });
  }

  private async make(): Promise<void> {
    const { create } = this.options;
    try {
      await this.create(typeof create === "object" ? create : {});
    } catch (error) {
      // Another client created the stream first, with another configuration.
      if (!(error instanceof SluiceError) || error.code !== "stream-exists") throw error;
    }
  }

  private send(value: Input | Encoded, metadata: Metadata | undefined, isPublish: boolean): Promise<AppendResult> {
    const { contentType, createMissing: create } = this;
    const isEncoded = value instanceof Encoded;
    try {
      if (this.options.schema && !isEncoded) checkValue(this.options.schema, value);
      const body = isEncoded ? value.body : this.encode(value);
      return this.parts.appender().append({ body, contentType, metadata, create, isEncoded, isPublish });
    } catch (error) {
      const refused = Promise.reject(error);
      refused.catch(() => {});
      return refused;
    }
  }

  private encode(value: unknown): Body {
    if (this.isJson) {
      const text = JSON.stringify(value);
      if (text !== undefined) return text;
      throw new SluiceError("invalid-value", "the value has no form in JSON");
    }
    if (typeof value === "string" || value instanceof Uint8Array) return value;
    throw new SluiceError("invalid-value", `a message of a stream of ${this.contentType} is a string or a Uint8Array`);
  }
}

function infoOf(headers: Headers): StreamInfo {
  const text = (name: string) => headers.get(name) ?? undefined;
  const number = (name: string) => (headers.has(name) ? Number(headers.get(name)) : undefined);
  const expiresAt = text(header.streamExpiresAt);
  return {
    contentType: text(header.contentType) ?? "",
    offset: text(header.streamNextOffset) ?? "",
    closed: text(header.streamClosed)?.toLowerCase() === "true",
    ttlSeconds: number(header.streamTtl),
    expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt),
    maxMessages: number(header.streamMaxMessages),
    maxBytes: number(header.streamMaxBytes),
    maxAgeSeconds: number(header.streamMaxAgeSeconds),
    shards: number(header.streamShards),
  };
}

function numeral(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}
