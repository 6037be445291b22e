/**
 * A stream as the user holds it: create, append, read, close. Handles are cheap and share the one appender of their stream, so
 * what two of them append keeps its order.
 */
import { header } from "@sluice/protocol";
import type { Appender } from "./appender.ts";
import { type AppendResult, type Body, type Create, isJson, type Metadata } from "./batch.ts";
import type { Connection } from "./connection.ts";
import { SluiceError } from "./error.ts";
import { checkValue, parseValue, type Schema } from "./schema.ts";
import { type ReadOptions, type StreamItem, StreamReader } from "./stream-reader.ts";

export interface StreamOptions<Input = unknown, Output = Input> {
  /** What `append` sends and `create` creates; `application/json` by default. */
  readonly contentType?: string | undefined;
  /** Checks what is appended and what is read, and gives both their types. */
  readonly schema?: Schema<Input, Output> | undefined;
  /**
   * A name for whoever writes, where there must be only one: the one who came last takes over, and the appends of those
   * before are refused with `producer-fenced`. Without it every client writes beside the others.
   */
  readonly producer?: string | undefined;
  /**
   * What the first `append` does when there is no such stream: it makes one, with these limits if they are given; `false` rejects
   * with `stream-not-found`. A stream that this client has written to and that was deleted since is never made again.
   */
  readonly create?: boolean | StreamLimits | undefined;
}

/** How long a stream lives and how much it keeps; all of it, for ever, by default. */
export interface StreamLimits {
  /** Gone when it was not used for so long. */
  readonly ttlSeconds?: number | undefined;
  readonly expiresAt?: Date | undefined;
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeSeconds?: number | undefined;
}

export interface CreateOptions<Input = unknown> extends StreamLimits {
  /** What the stream begins with; for streams of JSON. Nothing is appended when it exists already. */
  readonly messages?: readonly Input[] | undefined;
  /** Begins with what another stream holds, up to an offset. */
  readonly forkOf?: { readonly path: string; readonly offset?: string | undefined } | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface StreamInfo {
  readonly contentType: string;
  /** Where the stream ends: what comes next lies after it. */
  readonly offset: string;
  readonly closed: boolean;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface StreamParts {
  readonly connection: Connection;
  /** Throws when the client was closed. */
  readonly appender: () => Appender;
  /** The one that there is, if anything was appended. */
  readonly busyAppender: () => Appender | undefined;
  /** Of another stream of the same project, as an address. */
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

  /** Resolves when the server has it for good. Stored once, however often it had to be sent. Makes the stream if there is none. */
  append(value: Input, metadata?: Metadata): Promise<AppendResult> {
    try {
      if (this.options.schema) checkValue(this.options.schema, value);
      return this.parts.appender().append(this.encode(value), this.contentType, metadata, this.createMissing);
    } catch (error) {
      const refused = Promise.reject(error);
      refused.catch(() => {});
      return refused;
    }
  }

  /** Resolves when `append` has room: await it in a loop that does not await `append`. */
  async ready(): Promise<void> {
    await this.parts.busyAppender()?.ready();
  }

  /** Resolves when all that was appended is acknowledged; rejects with the first failure since the last `flush`. */
  async flush(): Promise<void> {
    await this.parts.busyAppender()?.flush();
  }

  /** Every message once and in order, over however many connections; a gap where something is gone. */
  async *read(options: ReadOptions = {}): AsyncGenerator<StreamItem<Output>, void, undefined> {
    const { schema } = this.options;
    for await (const batch of new StreamReader(this.parts.connection, this.address, options).batches()) {
      for (const item of batch) {
        if (options.signal?.aborted) return;
        if (schema === undefined || item.type === "gap") yield item as StreamItem<Output>;
        else yield { ...item, value: await parseValue(schema, item.value, item.offset) };
      }
    }
  }

  /** Also when it exists already with the same configuration; `created` tells. */
  async create(options: CreateOptions<Input> = {}): Promise<StreamInfo & { readonly created: boolean }> {
    const { messages, ttlSeconds, expiresAt, maxMessages, maxBytes, maxAgeSeconds, forkOf, signal } = options;
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
    };
    const answer = await this.parts.connection.call({ method: "PUT", path: this.address, headers, body, signal });
    return { ...infoOf(answer.headers), created: answer.status === 201 };
  }

  async info({ signal }: CallOptions = {}): Promise<StreamInfo> {
    try {
      const { headers } = await this.parts.connection.call({ method: "HEAD", path: this.address, signal });
      return infoOf(headers);
    } catch (error) {
      // An answer to HEAD has no body to say which.
      if (!(error instanceof SluiceError) || !/^http-(404|410)$/.test(error.code)) throw error;
      const { status, headers } = error;
      const code = status === 404 ? "stream-not-found" : "stream-gone";
      throw new SluiceError(code, `there is no stream ${this.path}`, { status, headers });
    }
  }

  /** Nothing can be appended any more; readers that have come to the end are told. What was appended before comes first. */
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
      // Somebody was quicker, and wants it otherwise.
      if (!(error instanceof SluiceError) || error.code !== "stream-exists") throw error;
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
  return {
    contentType: headers.get(header.contentType) ?? "",
    offset: headers.get(header.streamNextOffset) ?? "",
    closed: headers.get(header.streamClosed)?.toLowerCase() === "true",
  };
}

function numeral(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}
