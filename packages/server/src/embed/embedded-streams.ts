/**
 * Streams for the program that a server runs in: create, append, read, tail and delete without HTTP. `RunningServer.streams`
 * offers it, typed by values instead of bytes.
 *
 * Invariants: every rule is the service's, so an append reaches each kind of subscriber as one over HTTP does. The program
 * itself is the caller, so nothing asks for a token. Every failure is a SluiceError, as the client throws it.
 */
import { SluiceError } from "@sluice/client";
import { BEGINNING, formatOffset, NOW, type Position, parseOffset } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { isProjectName } from "../core/project.ts";
import { Refusal } from "../core/refusal.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import { checkMetadata } from "../streams/parse.ts";
import type { StreamPage } from "../streams/reading.ts";
import { absent, appendRefusal, createRefusal, gone, unreadable } from "../streams/refusals.ts";
import type { Streams } from "../streams/service.ts";
import { isJson, isText } from "../streams/state.ts";
import { asSluiceError } from "./embedded-error.ts";

export interface CreateOptions {
  /** `application/json` by default. */
  readonly contentType?: string | undefined;
  readonly ttlSeconds?: number | undefined;
  /** Epoch ms. */
  readonly expiresAt?: number | undefined;
  readonly maxMessages?: number | undefined;
  readonly maxBytes?: number | undefined;
  readonly maxAgeSeconds?: number | undefined;
}

export interface AppendOptions {
  /** Of the stream: `application/json` by default, `application/octet-stream` for bytes. */
  readonly contentType?: string | undefined;
  readonly id?: string | undefined;
  readonly key?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  /** Closes the stream with this message. */
  readonly close?: boolean | undefined;
  /** Whether a missing stream is created; true by default. */
  readonly create?: boolean | undefined;
}

export interface ReadOptions {
  /** An offset, `"beginning"` (the default) or `"now"`. */
  readonly from?: string | undefined;
  /** About how many bytes of payload a page may have. */
  readonly maxBytes?: number | undefined;
}

export interface TailOptions extends ReadOptions {
  /** Ends the loop with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface StreamRecord<T> {
  /** The position after this message: read on `from` here. */
  readonly offset: string;
  /** The parsed value of a JSON stream, the text of a text stream, else bytes. */
  readonly value: T;
  /** Epoch ms. */
  readonly publishedAt: number;
  readonly id?: string | undefined;
  readonly key?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

export interface ReadResult<T> {
  readonly messages: readonly StreamRecord<T>[];
  readonly nextOffset: string;
  /** Whether nothing follows yet. */
  readonly upToDate: boolean;
  /** Whether nothing will ever follow. */
  readonly closed: boolean;
}

const PAGE_BYTES = 1_024 * 1_024;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class EmbeddedStreams {
  private isClosed = false;
  /** Wakes each loop that waits, so that it sees the end of the server. */
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly streams: Streams,
    private readonly project: string,
  ) {}

  /** Resolves to whether this call created the stream. A stream that exists with other options is refused. */
  create(path: string, options: CreateOptions = {}): Promise<{ readonly created: boolean }> {
    return this.attempt(async () => {
      const { contentType = "application/json", ttlSeconds, expiresAt, maxMessages, maxBytes, maxAgeSeconds } = options;
      const maxAgeMs = maxAgeSeconds === undefined ? undefined : maxAgeSeconds * 1_000;
      const isKept = maxMessages === undefined && maxBytes === undefined && maxAgeMs === undefined;
      const retention = isKept ? undefined : { maxMessages, maxBytes, maxAgeMs };
      const config = { contentType, ttlSeconds, expiresAt, retention };
      const result = await this.streams.create(this.project, path, { config, closed: false });
      if (result.kind !== "created" && result.kind !== "exists") throw createRefusal(result, path, undefined);
      return { created: result.kind === "created" };
    });
  }

  /** Resolves when the message is durable. Creates the stream if it does not exist. */
  append(path: string, value: unknown, options: AppendOptions = {}): Promise<{ readonly offset: string }> {
    return this.attempt(async () => {
      const { contentType = value instanceof Uint8Array ? "application/octet-stream" : "application/json" } = options;
      const { id: messageId, key: messageKey, attributes, close = false, create = true } = options;
      const metadata = checkMetadata({ messageId, messageKey, attributes });
      const request = { payloads: [bytesOf(value, contentType)], contentType, close, ...metadata };
      let outcome = await this.streams.append(this.project, path, request);
      if (outcome.kind === "absent" && create) {
        await this.create(path, { contentType });
        outcome = await this.streams.append(this.project, path, request);
      }
      if (outcome.kind !== "appended" && outcome.kind !== "duplicate") throw appendRefusal(outcome, path);
      return { offset: formatOffset(outcome.next) };
    });
  }

  /** One page of what is there. Read on `from` its `nextOffset`. */
  read<T = unknown>(path: string, options: ReadOptions = {}): Promise<ReadResult<T>> {
    return this.attempt(async () => {
      const page = await this.page(path, await this.start(path, options.from), options.maxBytes);
      return {
        messages: page.messages.map((message) => recordOf<T>(message, page.meta.config.contentType)),
        nextOffset: formatOffset(page.next),
        upToDate: page.atTail,
        closed: page.atTail && page.meta.closed,
      };
    });
  }

  /** Yields every message once and in order, then those that come; ends when the stream is closed. */
  async *tail<T = unknown>(path: string, options: TailOptions = {}): AsyncGenerator<StreamRecord<T>, void, undefined> {
    const { signal, maxBytes } = options;
    const bell = new Bell();
    const ring = () => bell.ring();
    const unwatch = this.streams.watch(this.project, path, ring);
    this.waiting.add(ring);
    signal?.addEventListener("abort", ring);
    try {
      let after = await this.attempt(() => this.start(path, options.from));
      for (;;) {
        signal?.throwIfAborted();
        bell.reset();
        const page = await this.attempt(() => this.page(path, after, maxBytes));
        for (const message of page.messages) {
          yield recordOf<T>(message, page.meta.config.contentType);
          signal?.throwIfAborted();
        }
        after = page.next;
        if (!page.atTail) continue;
        if (page.meta.closed) return;
        await bell.rung;
      }
    } finally {
      unwatch();
      this.waiting.delete(ring);
      signal?.removeEventListener("abort", ring);
    }
  }

  delete(path: string): Promise<void> {
    return this.attempt(async () => {
      const { kind } = await this.streams.delete(this.project, path);
      if (kind === "absent") throw absent(path);
      if (kind === "gone") throw gone(path);
    });
  }

  /** Ends the loops and refuses what comes later. */
  close(): void {
    this.isClosed = true;
    for (const ring of this.waiting) ring();
  }

  private async attempt<T>(work: () => Promise<T>): Promise<T> {
    if (this.isClosed) throw new SluiceError("closed", "the server was closed");
    try {
      return await work();
    } catch (fault) {
      throw asSluiceError(fault);
    }
  }

  private async start(path: string, from = "beginning"): Promise<Position | undefined> {
    if (from === "beginning" || from === BEGINNING) return undefined;
    if (from === NOW) {
      const described = await this.streams.describe(this.project, path);
      if (described.kind !== "live") throw unreadable(described, path);
      return described.head.last;
    }
    const position = parseOffset(from);
    if (position !== undefined) return position;
    throw new Refusal("bad-offset", `from must be an offset, "beginning" or "now"; got ${JSON.stringify(from)}`);
  }

  private async page(path: string, after: Position | undefined, maxBytes = PAGE_BYTES): Promise<StreamPage> {
    const page = await this.streams.read(this.project, path, after, maxBytes);
    if (page.kind !== "page") throw unreadable(page, path);
    return page;
  }
}

/** The streams of each project that the program has asked for. */
export class EmbeddedProjects {
  private readonly known = new Map<string, EmbeddedStreams>();
  private isClosed = false;

  constructor(private readonly streams: Streams) {}

  /** Throws a SluiceError for a name that no project can have. */
  of(project: string): EmbeddedStreams {
    const known = this.known.get(project);
    if (known !== undefined) return known;
    if (!isProjectName(project))
      throw new SluiceError("bad-project", `no project can be named ${JSON.stringify(project)}`);
    const made = new EmbeddedStreams(this.streams, project);
    if (this.isClosed) made.close();
    this.known.set(project, made);
    return made;
  }

  close(): void {
    this.isClosed = true;
    for (const streams of this.known.values()) streams.close();
  }
}

/** A hint that is kept until it is waited for. */
class Bell {
  rung: Promise<void> = Promise.resolve();
  ring: () => void = () => {};

  reset(): void {
    this.rung = new Promise((resolve) => {
      this.ring = resolve;
    });
  }
}

/** Bytes are copied, here and below, because the program may write into its own. */
function bytesOf(value: unknown, contentType: string): Uint8Array {
  if (isJson(contentType)) {
    const text = JSON.stringify(value);
    if (text !== undefined) return utf8(text);
  } else if (value instanceof Uint8Array) return value.slice();
  else if (typeof value === "string") return utf8(value);
  const allowed = isJson(contentType) ? "a JSON value" : "a string or bytes";
  throw new SluiceError("invalid-value", `a message of ${contentType} must be ${allowed}; got ${typeof value}`);
}

function recordOf<T>(
  { position, payload, at, id, key, attributes }: LoggedMessage,
  contentType: string,
): StreamRecord<T> {
  const value = isJson(contentType)
    ? JSON.parse(decoder.decode(payload))
    : isText(contentType)
      ? decoder.decode(payload)
      : new Uint8Array(payload);
  return { offset: formatOffset(position), value: value as T, publishedAt: at, id, key, attributes };
}
