/**
 * Resumable streams for the Vercel AI SDK, on channels: the interface of the package `resumable-stream`, with a Sluice
 * client in place of Redis. A channel carries the text. An empty stream of the same name records which caller has claimed
 * the id and, once closed, that the text is complete.
 *
 * Invariants: of several callers that claim an id at the same time, one makes the stream. The stream is read to its end even
 * when its first reader leaves. A reader that does not read costs bounded memory.
 */
import { onAbort } from "./abort.ts";
import { Absence } from "./absence.ts";
import type { Channel } from "./channel.ts";
import type { ChannelItem } from "./channel-reader.ts";
import { SluiceError } from "./error.ts";
import { randomId } from "./random-id.ts";
import type { Sluice } from "./sluice.ts";
import type { Stream } from "./stream.ts";

export { type ChatTransport, stoppable } from "./stoppable-transport.ts";

export interface CreateResumableStreamContextOptions {
  readonly sluice: Sluice;
  /** The prefix of the names of channels and streams. Defaults to `resumable-stream`. */
  readonly keyPrefix?: string;
  /** Keeps a serverless function alive until the promise settles; null where the process stays alive anyway. */
  readonly waitUntil: ((promise: Promise<unknown>) => void) | null;
}

/** Makes the text. The signal aborts when a caller of `stopStream` asks for it: hand it to the model. */
export type MakeStream = (signal: AbortSignal) => ReadableStream<string>;

export interface ResumableStreamContext {
  /** Makes the stream, or follows the one in progress. Null when it is complete. */
  resumableStream(
    streamId: string,
    makeStream: MakeStream,
    skipCharacters?: number,
  ): Promise<ReadableStream<string> | null>;
  /** Undefined when the stream does not exist, null when it is complete. */
  resumeExistingStream(streamId: string, skipCharacters?: number): Promise<ReadableStream<string> | null | undefined>;
  /** Makes the stream. Null when it is already complete; rejects when another caller is making it. */
  createNewResumableStream(
    streamId: string,
    makeStream: MakeStream,
    skipCharacters?: number,
  ): Promise<ReadableStream<string> | null>;
  hasExistingStream(streamId: string): Promise<null | true | "DONE">;
  /**
   * Stops the stream, from any process and after any number of resumes: aborts the signal of the function that makes it. Readers
   * get what was made. False when the stream is complete or does not exist.
   */
  stopStream(streamId: string, reason?: string): Promise<boolean>;
}

const TTL_SECONDS = 24 * 60 * 60;
/** Most characters that may wait for the first reader; a slower reader is disconnected and can resume. */
const SLOW_READER_SIZE = 1024 * 1024;
/** How long a follower waits for the first text: one request lies between the claim and the first text, plus a margin. */
const START_MS = 5_000;
/** How long a stopped source may take to end by itself, for its last words; then it is cancelled. */
const LAST_WORDS_MS = 1_000;

export function createResumableStreamContext(options: CreateResumableStreamContextOptions): ResumableStreamContext {
  return new Context(options);
}

class Context implements ResumableStreamContext {
  private readonly prefix: string;

  constructor(private readonly options: CreateResumableStreamContextOptions) {
    this.prefix = options.keyPrefix ?? "resumable-stream";
    // Callers may detach the methods from the object.
    this.resumableStream = this.resumableStream.bind(this);
    this.resumeExistingStream = this.resumeExistingStream.bind(this);
    this.createNewResumableStream = this.createNewResumableStream.bind(this);
    this.hasExistingStream = this.hasExistingStream.bind(this);
    this.stopStream = this.stopStream.bind(this);
  }

  async resumableStream(id: string, makeStream: MakeStream, skipCharacters?: number) {
    if (await this.claim(id)) return this.make(id, makeStream, skipCharacters);
    return (await this.resumeExistingStream(id, skipCharacters)) ?? null;
  }

  async createNewResumableStream(id: string, makeStream: MakeStream, skipCharacters?: number) {
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

  async stopStream(id: string, reason?: string): Promise<boolean> {
    if ((await this.hasExistingStream(id)) !== true) return false;
    const absence = new Absence(START_MS, undefined);
    for (;;) {
      try {
        return await this.channel(id).stop({ reason });
      } catch (error) {
        // The channel begins shortly after the claim.
        if (await absence.wait(error)) continue;
        if (error instanceof SluiceError && error.status === 404) return false;
        throw error;
      }
    }
  }

  private channel(id: string): Channel {
    return this.options.sluice.channel(`${this.prefix}:${id}`);
  }

  private sentinel(id: string): Stream<string> {
    return this.options.sluice.stream<string>(`${this.prefix}/${id}`);
  }

  /**
   * Whether this caller owns the id now. The first message names the owner, so a repeated request with a lost answer does no
   * harm.
   */
  private async claim(id: string): Promise<boolean> {
    const sentinel = this.sentinel(id);
    const mine = randomId();
    try {
      const { created } = await sentinel.create({ ttlSeconds: TTL_SECONDS, messages: [mine] });
      if (created) return true;
      for await (const item of sentinel.read()) return item.type === "message" && item.value === mine;
      return false;
    } catch (error) {
      // The existing stream differs in being closed.
      if (error instanceof SluiceError && error.code === "stream-exists") return false;
      throw error;
    }
  }

  private make(id: string, makeStream: MakeStream, skipCharacters = 0): ReadableStream<string> {
    const reader = new FirstReader(skipCharacters);
    // The first reader gets the error, and the channel passes it on to every other reader.
    const made = this.publish(id, makeStream, reader).catch(() => {});
    this.options.waitUntil?.(made);
    return reader.stream;
  }

  /** A channel that cannot be written ends the text for other readers; the first reader still gets all of it. */
  private async publish(id: string, makeStream: MakeStream, reader: FirstReader): Promise<void> {
    const publisher = this.channel(id).publisher();
    try {
      for await (const text of chunksOf(makeStream(publisher.signal), publisher.signal)) {
        reader.give(text);
        await publisher.write(text).catch(() => {});
      }
      reader.end();
      await publisher.end();
    } catch (error) {
      if (publisher.signal.aborted) {
        // A source that fails because it was stopped has ended.
        reader.end();
        await publisher.end();
        return;
      }
      reader.fail(error);
      await publisher.fail(error);
    } finally {
      await this.sentinel(id).close();
    }
  }
}

/** The caller that asked for the stream: it gets the text directly, and may leave. */
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

/** Null when the channel is gone: its maker left without ending it. */
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

async function* chunksOf(stream: ReadableStream<string>, signal: AbortSignal): AsyncGenerator<string, void, undefined> {
  const reader = stream.getReader();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stopListening = onAbort(signal, () => {
    timer = setTimeout(() => void reader.cancel(signal.reason).catch(() => {}), LAST_WORDS_MS);
  });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    stopListening();
    clearTimeout(timer);
  }
}
