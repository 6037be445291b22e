/**
 * Resumable streams for the Vercel AI SDK, on channels: the interface of the package `resumable-stream`, with a Sluice client in
 * the place of Redis. The stream's text goes over a channel; beside it an empty stream of the same name says who has claimed
 * the id and, when it is closed, that all is said.
 *
 * What must stay true: only one of those who claim an id at the same time makes the stream; it is read to its end even when its
 * first reader goes away; a reader that does not read costs a bounded amount of memory.
 */
import type { Channel } from "./channel.ts";
import type { ChannelItem } from "./channel-reader.ts";
import { SluiceError } from "./error.ts";
import { randomId } from "./random-id.ts";
import type { Sluice } from "./sluice.ts";
import type { Stream } from "./stream.ts";

export interface CreateResumableStreamContextOptions {
  readonly sluice: Sluice;
  /** What the names of channels and streams start with. Defaults to `resumable-stream`. */
  readonly keyPrefix?: string;
  /** Keeps a serverless function alive until the promise settles; null where nothing ends it. */
  readonly waitUntil: ((promise: Promise<unknown>) => void) | null;
}

export interface ResumableStreamContext {
  /** Makes the stream, or follows the one that is under way. Null when it is done. */
  resumableStream(
    streamId: string,
    makeStream: () => ReadableStream<string>,
    skipCharacters?: number,
  ): Promise<ReadableStream<string> | null>;
  /** Undefined when there is no such stream, null when it is done. */
  resumeExistingStream(streamId: string, skipCharacters?: number): Promise<ReadableStream<string> | null | undefined>;
  /** Makes the stream. Null when it is done already; rejects when another caller makes it. */
  createNewResumableStream(
    streamId: string,
    makeStream: () => ReadableStream<string>,
    skipCharacters?: number,
  ): Promise<ReadableStream<string> | null>;
  hasExistingStream(streamId: string): Promise<null | true | "DONE">;
}

const TTL_SECONDS = 24 * 60 * 60;
/** Characters that may wait for the first reader; one that is slower is cut off and can resume. */
const SLOW_READER_SIZE = 1024 * 1024;
/** Between the claim and the first word lies a request; who follows waits that long, and then some. */
const START_MS = 5_000;

export function createResumableStreamContext(options: CreateResumableStreamContextOptions): ResumableStreamContext {
  return new Context(options);
}

class Context implements ResumableStreamContext {
  private readonly prefix: string;

  constructor(private readonly options: CreateResumableStreamContextOptions) {
    this.prefix = options.keyPrefix ?? "resumable-stream";
    // They may be taken off the object.
    this.resumableStream = this.resumableStream.bind(this);
    this.resumeExistingStream = this.resumeExistingStream.bind(this);
    this.createNewResumableStream = this.createNewResumableStream.bind(this);
    this.hasExistingStream = this.hasExistingStream.bind(this);
  }

  async resumableStream(id: string, makeStream: () => ReadableStream<string>, skipCharacters?: number) {
    if (await this.claim(id)) return this.make(id, makeStream, skipCharacters);
    return (await this.resumeExistingStream(id, skipCharacters)) ?? null;
  }

  async createNewResumableStream(id: string, makeStream: () => ReadableStream<string>, skipCharacters?: number) {
    if (await this.claim(id)) return this.make(id, makeStream, skipCharacters);
    if ((await this.hasExistingStream(id)) === "DONE") return null;
    throw new SluiceError("stream-exists", `the resumable stream ${id} is under way already`);
  }

  async resumeExistingStream(id: string, skipCharacters?: number) {
    const state = await this.hasExistingStream(id);
    if (state === null) return undefined;
    return state === "DONE" ? null : follow(this.channel(id), skipCharacters);
  }

  async hasExistingStream(id: string): Promise<null | true | "DONE"> {
    try {
      return (await this.sentinel(id).info()).closed ? "DONE" : true;
    } catch (error) {
      if (error instanceof SluiceError && error.code === "stream-not-found") return null;
      throw error;
    }
  }

  private channel(id: string): Channel {
    return this.options.sluice.channel(`${this.prefix}:${id}`);
  }

  private sentinel(id: string): Stream<string> {
    return this.options.sluice.stream<string>(`${this.prefix}/${id}`);
  }

  /** Whether the id is ours now. The first message says whose it is, so that a lost answer to a repeated request does not matter. */
  private async claim(id: string): Promise<boolean> {
    const sentinel = this.sentinel(id);
    const mine = randomId();
    try {
      const { created } = await sentinel.create({ ttlSeconds: TTL_SECONDS, messages: [mine] });
      if (created) return true;
      for await (const item of sentinel.read()) return item.type === "message" && item.value === mine;
      return false;
    } catch (error) {
      // It differs in being closed.
      if (error instanceof SluiceError && error.code === "stream-exists") return false;
      throw error;
    }
  }

  private make(id: string, makeStream: () => ReadableStream<string>, skipCharacters = 0): ReadableStream<string> {
    const reader = new FirstReader(skipCharacters);
    // What goes wrong is told to the first reader and, on the channel, to all others.
    const made = this.publish(id, makeStream, reader).catch(() => {});
    this.options.waitUntil?.(made);
    return reader.stream;
  }

  /** A channel that cannot be written ends what others see; the first reader gets all of it nevertheless. */
  private async publish(id: string, makeStream: () => ReadableStream<string>, reader: FirstReader): Promise<void> {
    const publisher = this.channel(id).publisher();
    try {
      for await (const text of chunksOf(makeStream())) {
        reader.give(text);
        await publisher.write(text).catch(() => {});
      }
      reader.end();
      await publisher.end();
    } catch (error) {
      reader.fail(error);
      await publisher.fail(error);
    } finally {
      await this.sentinel(id).close();
    }
  }
}

/** The caller that asked for the stream: it gets the text first-hand, and may go away. */
class FirstReader {
  readonly stream: ReadableStream<string>;
  private controller: ReadableStreamDefaultController<string> | undefined;

  constructor(private skip: number) {
    this.stream = new ReadableStream<string>(
      {
        start: (controller) => {
          this.controller = controller;
        },
        cancel: () => {
          this.controller = undefined;
        },
      },
      { highWaterMark: SLOW_READER_SIZE, size: (text) => text?.length ?? 0 },
    );
  }

  give(text: string): void {
    const rest = text.slice(this.skip);
    this.skip -= text.length - rest.length;
    if (rest === "") return;
    this.controller?.enqueue(rest);
    if ((this.controller?.desiredSize ?? 1) > 0) return;
    this.fail(new SluiceError("queue-full", "the reader is too slow; it can resume where it is"));
  }

  end(): void {
    this.controller?.close();
    this.controller = undefined;
  }

  fail(error: unknown): void {
    this.controller?.error(error);
    this.controller = undefined;
  }
}

/** Null when the channel is gone: its maker has left without ending it. */
async function follow(channel: Channel, skipCharacters = 0): Promise<ReadableStream<string> | null> {
  const abort = new AbortController();
  const items = channel.read({ signal: abort.signal, waitMs: START_MS });
  let skip = skipCharacters;
  let first: IteratorResult<ChannelItem, void> | undefined;
  try {
    first = await items.next();
  } catch (error) {
    if (error instanceof SluiceError && error.status === 404) return null;
    throw error;
  }
  const next = async () => {
    const item = first ?? (await items.next());
    first = undefined;
    return item.done ? undefined : item.value;
  };
  return new ReadableStream<string>({
    async pull(controller) {
      for (let item = await next(); item !== undefined && item.type !== "end"; item = await next()) {
        const text = textOf(item);
        const rest = text.slice(skip);
        skip -= text.length - rest.length;
        if (rest !== "") return controller.enqueue(rest);
      }
      abort.abort();
      controller.close();
    },
    cancel: () => abort.abort(),
  });
}

function textOf(item: ChannelItem): string {
  if (item.type === "gap") throw new SluiceError("incomplete", "the beginning of the stream is gone");
  if (item.type === "error") throw new SluiceError("publisher-failed", String(item.payload));
  return item.type === "delta" && typeof item.payload === "string" ? item.payload : "";
}

async function* chunksOf(stream: ReadableStream<string>): AsyncGenerator<string, void, undefined> {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
