/**
 * The handle of a stream: create, append, publish, read, close. Made by the client.
 *
 * Invariants: handles are cheap. All handles of a stream share its appender, so appends through two of them keep their
 * order.
 */
import { header, NOW } from "@sluice/protocol";
import { orAborted } from "./abort.ts";
import type { Appender } from "./appender.ts";
import { type AppendResult, type Body, type Create, isJson, type Metadata, type PublishResult } from "./batch.ts";
import type { Call, CallOptions, Connection } from "./connection.ts";
import { Encoded } from "./encoded.ts";
import { isRefusal, SluiceError } from "./error.ts";
import { checkProducer, type StreamProducer } from "./producer.ts";
import type { Gap, Mark, MarkedReadOptions, PageOptions, ReadOptions, StreamItem, StreamPage } from "./read-options.ts";
import { checkValue, parseValue, type Schema } from "./schema.ts";
import {
  type Created,
  type CreateOptions,
  headersOf,
  infoOf,
  type StreamInfo,
  type StreamLimits,
} from "./stream-info.ts";
import { StreamReader } from "./stream-reader.ts";

export interface StreamOptions<Input = unknown, Output = Input> {
  /** The content type for `append` and `create`; `application/json` by default. */
  readonly contentType?: string | undefined;
  /** Checks appended and read values, and gives both their types. */
  readonly schema?: Schema<Input, Output> | undefined;
  /**
   * The name of a writer that must be alone: the newest client under it takes over, and the appends of earlier clients are
   * refused with `producer-fenced`. Without it every client writes beside the others, under its own random name.
   *
   * `{ id, epoch }` gives the appends of a program fixed numbers, from `seq` (0) on: a program that restarts and appends the same
   * messages again stores each once. Every message is a request of its own then. An append whose outcome stays unknown ends the
   * handle, because the numbers behind it are uncertain.
   *
   * `false` disables numbers: a request is sent once, and a failure is never retried. For a program that appends once and
   * exits, or that spreads messages without keys over the shards of a topic.
   */
  readonly producer?: StreamProducer | undefined;
  /**
   * What the first `append` does when the stream does not exist: it creates the stream, with these limits if given; `false`
   * rejects with `stream-not-found`. A stream that this client has written to and that was deleted since is never created
   * again.
   */
  readonly create?: boolean | StreamLimits | undefined;
}

export interface CloseOptions<Input = unknown> {
  /** A last message, stored in the same step that closes the stream. */
  readonly message?: Input | Encoded | undefined;
  readonly metadata?: Metadata | undefined;
  /** Stops waiting. A request that was sent may still close the stream. */
  readonly signal?: AbortSignal | undefined;
}

export interface Closed extends AppendResult {
  readonly closed: true;
}

/** `deleted` is undefined when it is gone and the answer to an earlier try was lost: then this call or another deleted it. */
export interface Deleted {
  readonly deleted: true | undefined;
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
    checkProducer(options.producer);
    this.contentType = options.contentType ?? "application/json";
    this.isJson = isJson(this.contentType);
    if (options.create !== false) this.createMissing = () => this.make();
  }

  /** Resolves when the message is durable. It is stored once, across retries. Creates the stream if it does not exist. */
  append(value: Input | Encoded, metadata?: Metadata): Promise<AppendResult> {
    return this.send(value, metadata, {});
  }

  /** Appends, waits for the copies into the sessions that follow the stream as far as the server does, and reports them. */
  publish(value: Input | Encoded, metadata?: Metadata): Promise<PublishResult> {
    return this.send(value, metadata, { isPublish: true }) as Promise<PublishResult>;
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
  read(options: MarkedReadOptions): AsyncGenerator<StreamItem<Output> | Mark, void, undefined>;
  read(options?: ReadOptions): AsyncGenerator<StreamItem<Output>, void, undefined>;
  read(options: ReadOptions & { readonly marks?: boolean } = {}): AsyncGenerator<StreamItem<Output>, void, undefined> {
    // Made here and not in the loop, so that a wrong option throws at the call.
    const reader = new StreamReader(this.parts.connection, this.address, options, "envelope");
    return this.items(reader, options) as AsyncGenerator<StreamItem<Output>, void, undefined>;
  }

  /** Like `read`, but yields the bytes that the server sent, for a program that parses or stores them itself. */
  pages({ format, live, ...options }: PageOptions = {}): AsyncGenerator<StreamPage | Gap, void, undefined> {
    const polled = { ...options, marks: false, live: live ? ("long-poll" as const) : false };
    return new StreamReader(this.parts.connection, this.address, polled, format).pages();
  }

  /** Succeeds also when the stream exists already with the same configuration; `created` tells which. */
  async create(options: CreateOptions<Input> = {}): Promise<Created> {
    const { messages, forkOf, signal, giveUpMs } = options;
    const body = messages && this.encodeAll(messages);
    const headers = {
      ...headersOf(options),
      [header.contentType]: forkOf && this.options.contentType === undefined ? undefined : this.contentType,
      [header.streamForkedFrom]: forkOf && this.parts.sourceOf(forkOf.path),
    };
    const tries = { isUncertain: false };
    const call = { method: "PUT", path: this.address, headers, body, signal, giveUpMs };
    const answer = await this.parts.connection.call(call, tries);
    const isNew = answer.status === 201;
    return { ...infoOf(answer), created: isNew || (tries.isUncertain ? undefined : false) };
  }

  async info(options: CallOptions = {}): Promise<StreamInfo> {
    const { connection } = this.parts;
    const call: Call = { ...options, method: "HEAD", path: this.address };
    try {
      return infoOf(await connection.call(call));
    } catch (error) {
      if (!(error instanceof SluiceError) || error.status === undefined || error.code === "bad-answer") throw error;
    }
    // The answer to a HEAD has no body with the reason; the same request as a GET has one.
    await connection.call({ ...call, method: "GET", query: { offset: NOW } });
    // Another client created the stream in between.
    return infoOf(await connection.call(call));
  }

  /**
   * Refuses further appends, after the pending ones are stored; readers at the end learn that the stream is closed. It goes
   * under the producer's number, so a fenced producer cannot close. Succeeds also when the stream is closed already, unless
   * there is a last message.
   */
  async close({ message, metadata, signal }: CloseOptions<Input> = {}): Promise<Closed> {
    await orAborted(this.flush(), signal);
    const { offset, historyLost } = await orAborted(this.send(message, metadata, { closes: true }), signal);
    return { offset, historyLost, closed: true };
  }

  /** Rejects with `stream-not-found` when it does not exist. */
  delete(options: CallOptions = {}): Promise<Deleted> {
    return this.parts.connection.delete({ ...options, path: this.address });
  }

  private async *items(reader: StreamReader, options: ReadOptions & { readonly marks?: boolean }) {
    const { schema } = this.options;
    for await (const batch of reader.batches()) {
      for (const item of batch) {
        if (options.signal?.aborted) return;
        if (item.type === "message") {
          const { value } = item;
          yield { ...item, value: schema ? await parseValue(schema, value, item.offset) : (value as Output) };
        } else if (item.type === "gap" || options.marks) yield item;
      }
    }
  }

  private async make(): Promise<void> {
    const { create } = this.options;
    try {
      await this.create(typeof create === "object" ? create : {});
    } catch (error) {
      // Another client created the stream first, with another configuration.
      if (!isRefusal(error, 409, "stream-exists")) throw error;
    }
  }

  /** An undefined value is allowed only where the stream is closed without a message. */
  private send(
    value: Input | Encoded | undefined,
    metadata: Metadata | undefined,
    kind: { readonly isPublish?: boolean; readonly closes?: boolean },
  ): Promise<AppendResult> {
    const { contentType } = this;
    const isEmpty = value === undefined && kind.closes === true;
    const isEncoded = isEmpty || value instanceof Encoded;
    try {
      const body = isEmpty ? "" : value instanceof Encoded ? value.body : this.encode(value);
      // A stream that does not exist is not created to be closed.
      const create = isEmpty ? undefined : this.createMissing;
      return this.parts.appender().append({ ...kind, body, contentType, metadata, create, isEncoded });
    } catch (error) {
      const refused = Promise.reject(error);
      refused.catch(() => {});
      return refused;
    }
  }

  private encode(value: unknown): Body {
    if (this.options.schema) checkValue(this.options.schema, value);
    if (this.isJson) {
      const text = JSON.stringify(value);
      if (text !== undefined) return text;
      throw new SluiceError("invalid-value", "the value has no form in JSON");
    }
    if (typeof value === "string" || value instanceof Uint8Array) return value;
    throw new SluiceError("invalid-value", `a message of a stream of ${this.contentType} is a string or a Uint8Array`);
  }

  private encodeAll(values: readonly Input[]): Body | undefined {
    const bodies = values.map((value) => this.encode(value));
    if (this.isJson) return `[${bodies.join(",")}]`;
    if (bodies.length <= 1) return bodies[0];
    throw new SluiceError("invalid-value", `a stream of ${this.contentType} can be created with one message at most`);
  }
}
