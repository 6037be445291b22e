/**
 * A stand-in for the channel routes of the server, as the wire contract describes them: publish with its limits, phases and
 * sequences; events with resume, trimming and an end. The channel tests of the client use it for faults on demand.
 *
 * Invariants: it keeps its state in memory for one test. It forwards every other route to a real server, so that one address
 * serves both.
 */
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface PublishedMessage {
  readonly phase: "START" | "DELTA" | "END" | "ERROR";
  readonly sequence: number;
  readonly payload?: unknown;
}

type Trouble = "lose-answer" | "reset" | 503 | undefined;

interface FakeAnswer {
  readonly status: number;
  readonly value: object;
  readonly headers?: Record<string, string> | undefined;
}

interface FakeChannel {
  readonly kept: { readonly offset: string; readonly message: PublishedMessage }[];
  taken: number;
  last: number;
  hasEnded: boolean;
  readonly readers: Set<() => void>;
  windowAt: number;
  inWindow: number;
}

export interface FakeOptions {
  readonly keep?: number;
  readonly requestBytes?: number;
  readonly perSecond?: number;
  /** The fate of a publish: refused before it counts, or its answer lost afterwards. */
  readonly publishTrouble?: (index: number) => Trouble;
  /** The number of events after which a connection is cut. */
  readonly cutAfter?: () => number | undefined;
  /** The port of a real server for all other routes. */
  readonly others?: number;
}

export class FakeChannelServer {
  readonly requests: { readonly at: number; readonly bytes: number; readonly status: number }[] = [];
  readonly channels = new Map<string, FakeChannel>();
  openReaders = 0;

  private constructor(
    private readonly server: Server,
    private readonly options: FakeOptions,
  ) {}

  static async open(options: FakeOptions = {}): Promise<FakeChannelServer> {
    const server = createServer();
    const fake = new FakeChannelServer(server, options);
    server.on("request", (incoming, outgoing) => void fake.handle(incoming, outgoing));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    });
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The messages of a channel that are kept. */
  messages(id: string): PublishedMessage[] {
    return (this.channels.get(id)?.kept ?? []).map(({ message }) => message);
  }

  private async handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const match = /^\/v1\/default\/channels\/([^/]+)\/(publish|events)/.exec(incoming.url!);
    if (match === null) return this.passOn(incoming, outgoing);
    const id = decodeURIComponent(match[1]!);
    if (match[2] === "events") return this.events(id, incoming, outgoing);
    let body = "";
    for await (const chunk of incoming.setEncoding("utf8")) body += chunk;
    this.publish(id, body, outgoing);
  }

  private publish(id: string, body: string, outgoing: ServerResponse): void {
    const trouble = this.options.publishTrouble?.(this.requests.length);
    const bytes = Buffer.byteLength(body);
    const { status, value, headers } = this.answerTo(id, body, bytes, trouble);
    this.requests.push({ at: Date.now(), bytes, status });
    if (trouble === "lose-answer" || status === 0) outgoing.destroy();
    else outgoing.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(value));
  }

  private answerTo(id: string, body: string, bytes: number, trouble: Trouble): FakeAnswer {
    if (bytes > (this.options.requestBytes ?? 16_384)) return refused(413, "too-large");
    if (trouble === "reset") return { status: 0, value: {} };
    if (trouble === 503) return refused(503, "unavailable", { "Retry-After": "0" });
    const channel = this.channel(id);
    if (!this.isWithinRate(channel)) return refused(429, "rate-limited", { "Retry-After": "1" });
    const value = JSON.parse(body) as PublishedMessage | { messages: PublishedMessage[] };
    for (const message of "messages" in value ? value.messages : [value]) {
      const stored = channel.kept.find(({ message: { sequence } }) => sequence === message.sequence);
      const isDifferent = stored !== undefined && JSON.stringify(stored.message) !== JSON.stringify(message);
      if (isDifferent) return refused(409, channel.hasEnded ? "channel-ended" : "channel-sequence");
      if (message.sequence <= channel.last) continue;
      const isMisplaced = channel.hasEnded || (channel.last < 0 && message.phase !== "START");
      if (isMisplaced) return refused(409, "phase-conflict");
      this.take(channel, message);
    }
    return { status: 202, value: { offset: offsetOf(channel.taken), sequence: channel.last } };
  }

  private channel(id: string): FakeChannel {
    let channel = this.channels.get(id);
    if (channel === undefined) {
      channel = { kept: [], taken: 0, last: -1, hasEnded: false, readers: new Set(), windowAt: 0, inWindow: 0 };
      this.channels.set(id, channel);
    }
    return channel;
  }

  private isWithinRate(channel: FakeChannel): boolean {
    const window = Math.floor(Date.now() / 1_000);
    if (channel.windowAt !== window) channel.inWindow = 0;
    channel.windowAt = window;
    return ++channel.inWindow <= (this.options.perSecond ?? 20);
  }

  private take(channel: FakeChannel, message: PublishedMessage): void {
    channel.last = message.sequence;
    channel.hasEnded ||= message.phase === "END";
    channel.kept.push({ offset: offsetOf(++channel.taken), message });
    if (channel.kept.length > (this.options.keep ?? 1_200)) channel.kept.shift();
    for (const wake of channel.readers) wake();
  }

  private events(id: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
    const channel = this.channels.get(id);
    if (channel === undefined) {
      outgoing.writeHead(404).end(JSON.stringify({ code: "channel-not-found", retryable: false }));
      return;
    }
    this.openReaders++;
    outgoing.writeHead(200, { "Content-Type": "text/event-stream" });
    outgoing.write(": here\n\n");
    let position = String(incoming.headers["last-event-id"] ?? "");
    let left = this.options.cutAfter?.() ?? Number.POSITIVE_INFINITY;
    const wake = (): void => {
      const [earliest] = channel.kept;
      const isGap = earliest !== undefined && position < offsetOf(Number(earliest.offset.slice(1)) - 1);
      if (isGap) outgoing.write(`event: gap\ndata: {}\n\n`);
      for (const { offset, message } of channel.kept) {
        if (offset <= position) continue;
        // Without the last chunk, the written part arrives and then the connection breaks.
        if (left-- <= 0) {
          outgoing.socket?.end();
          return;
        }
        position = offset;
        const data = JSON.stringify({ channelId: id, ...message });
        outgoing.write(`event: stream\nid: ${offset}\ndata: ${data}\n\n: beat\n\n`);
        if (message.phase === "END") outgoing.end();
      }
    };
    channel.readers.add(wake);
    outgoing.on("close", () => {
      channel.readers.delete(wake);
      this.openReaders--;
    });
    wake();
  }

  private passOn(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { method, url: path, headers } = incoming;
    const onward = request({ host: "127.0.0.1", port: this.options.others, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.rawHeaders);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  }
}

function refused(status: number, code: string, headers?: Record<string, string>): FakeAnswer {
  return { status, headers, value: { code, detail: code, retryable: status === 429 || status === 503 } };
}

function offsetOf(count: number): string {
  return `o${String(count).padStart(8, "0")}`;
}
