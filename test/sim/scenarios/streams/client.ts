/**
 * A client of streams in a simulation: speaks the protocol over the simulated network, and records every call and its
 * result. writers.ts, readers.ts and upheaval.ts decide what it does.
 */
import { BEGINNING, formatOffset, NOW, type Position, parseOffset } from "@sluice/protocol";
import type { Append, Call, Create, Done, History, List, Operation, Read, Result, Simple } from "../../history.ts";
import { show } from "../../history.ts";
import type { Answer, Network, ReplyHead, Spec } from "../../network.ts";
import { bytesOf, decode, encode, type Item } from "./messages.ts";
import { SseParser } from "./sse.ts";

const PATIENCE_MS = 3_000;

export interface Frame {
  readonly next: Position;
  readonly upToDate: boolean;
  readonly closed: boolean;
}

export class StreamClient {
  constructor(
    readonly name: string,
    private readonly network: Network,
    private readonly history: History,
    /** The content type that every stream of this path has. */
    private readonly typeOf: (path: string) => string,
    private readonly longPollMs: number,
  ) {}

  create(op: Create, items: readonly Item[]): Promise<Result> {
    const { fork, retention } = op;
    const headers: Record<string, string> = { "content-type": op.contentType };
    if (op.ttlSeconds !== undefined) headers["stream-ttl"] = String(op.ttlSeconds);
    if (op.closed) headers["stream-closed"] = "true";
    if (fork) {
      headers["stream-forked-from"] = `/v1/stream/${fork.source}`;
      headers["stream-fork-offset"] = formatOffset(fork.at);
    }
    if (retention?.maxMessages !== undefined) headers["stream-max-messages"] = String(retention.maxMessages);
    if (retention?.maxBytes !== undefined) headers["stream-max-bytes"] = String(retention.maxBytes);
    if (retention?.maxAgeSeconds !== undefined) headers["stream-max-age-seconds"] = String(retention.maxAgeSeconds);
    return this.call(op, { method: "PUT", headers, body: this.body(op.contentType, items) });
  }

  append(op: Append, items: readonly Item[]): Promise<Result> {
    const contentType = this.typeOf(op.path);
    const headers: Record<string, string> = {};
    if (items.length > 0) headers["content-type"] = contentType;
    if (op.close) headers["stream-closed"] = "true";
    if (op.seq !== undefined) headers["stream-seq"] = op.seq;
    if (op.producer) {
      headers["producer-id"] = op.producer.id;
      headers["producer-epoch"] = String(op.producer.epoch);
      headers["producer-seq"] = String(op.producer.seq);
    }
    return this.call(op, { method: "POST", headers, body: this.body(contentType, items) });
  }

  delete(path: string): Promise<Result> {
    return this.call({ kind: "delete", path } satisfies Simple, { method: "DELETE" });
  }

  head(path: string): Promise<Result> {
    return this.call({ kind: "head", path } satisfies Simple, { method: "HEAD" });
  }

  /** A client may leave a long-poll before it ends; by default it waits. */
  read(op: Read, patienceMs = PATIENCE_MS + (op.mode === "long-poll" ? this.longPollMs : 0)): Promise<Result> {
    return this.call(op, { method: "GET", search: searchOf(op) }, patienceMs);
  }

  /** Lists every stream of the project, on one page. */
  list(): Promise<Result> {
    return this.call({ kind: "list", path: "" } satisfies List, {
      method: "GET",
      path: "/v1/default/streams",
      search: "limit=1000",
    });
  }

  private body(contentType: string, items: readonly Item[]): Uint8Array | undefined {
    for (const item of items) this.history.sizes.set(item.id, bytesOf(item));
    return items.length === 0 ? undefined : encode(contentType, items);
  }

  private async call(
    op: Operation,
    spec: Omit<Spec, "path"> & { path?: string },
    patienceMs = PATIENCE_MS,
  ): Promise<Result> {
    const call = this.history.begin(this.name, op);
    const answer = await this.network.request({ path: `/v1/stream/${op.path}`, ...spec }, patienceMs);
    this.finish(call, this.resultOf(op, answer));
    return call.result;
  }

  private finish(call: Call, result: Result): void {
    this.history.end(call, result);
    this.network.world.log?.(`  ${show(call)}`);
  }

  private resultOf(op: Operation, answer: Answer): Result {
    if (answer.kind === "refused") return { kind: "unsent" };
    if (answer.kind === "lost") return { kind: "unknown", why: answer.why };
    const { head } = answer;
    const text = Buffer.from(answer.body).toString();
    if (head.status >= 400) return refusal(head, text, op.kind === "head");
    const done = {
      kind: "done" as const,
      status: head.status,
      next: offsetIn(head, "stream-next-offset"),
      closed: head.header("stream-closed") === "true",
      upToDate: head.header("stream-up-to-date") === "true",
      producerSeq: numberIn(head, "producer-seq"),
    };
    if (op.kind === "list") return { ...done, listed: listedIn(text) };
    if (op.kind !== "read") return done;
    return { ...done, ...decode(this.typeOf(op.path), op.format, text) };
  }

  /**
   * Reads live until the connection ends or `keeps` says no; resolves with the offset to resume from, or the refusal.
   * Records every control event as a read of its own, from where the one before it ended.
   */
  follow(op: Read, readMs: number, keeps: (frame: Frame) => boolean, giveUpMs: number): Promise<Result | Read["from"]> {
    return new Promise((resolve) => {
      const invoked = this.history.stamp();
      const parser = new SseParser();
      let { from } = op;
      let head: ReplyHead | undefined;
      let problem = "";
      let data = "";
      const finish = (result: Result | Read["from"]) => {
        cancel();
        exchange.leave();
        resolve(result);
      };
      const frame = (event: string, text: string): boolean => {
        if (event === "data") data = head?.header("stream-sse-data-encoding") === "base64" ? decodeBase64(text) : text;
        if (event !== "control") return true;
        const { streamNextOffset, upToDate = false, streamClosed: closed = false } = JSON.parse(text);
        const next = parseOffset(streamNextOffset)!;
        const call = this.history.begin(this.name, { ...op, from }, invoked);
        const done: Done = {
          kind: "done",
          status: 200,
          next,
          closed,
          upToDate,
          ...decode(this.typeOf(op.path), op.format, data),
        };
        this.finish(call, done);
        data = "";
        from = next;
        return keeps({ next, upToDate, closed });
      };
      const spec: Spec = { method: "GET", path: `/v1/stream/${op.path}`, search: searchOf(op) };
      const exchange = this.network.open(
        spec,
        {
          head: (given) => {
            head = given;
          },
          chunk: (bytes) => {
            if (head!.status >= 400) problem += Buffer.from(bytes).toString();
            else if (parser.push(bytes).some(({ event, data: text }) => !frame(event, text))) finish(from);
          },
          end: () => finish(head!.status < 400 ? from : this.refuseFollow(op, invoked, refusal(head!, problem, false))),
          refused: () => finish(from),
          lost: () => finish(from),
        },
        readMs,
      );
      const cancel = this.network.world.schedule("leaves", giveUpMs, () => finish(from));
    });
  }

  private refuseFollow(op: Read, invoked: Call["invoked"], result: Result): Result {
    this.finish(this.history.begin(this.name, op, invoked), result);
    return result;
  }
}

function searchOf({ from, mode, format }: Read): string {
  const offset = from === BEGINNING || from === NOW ? from : formatOffset(from);
  const live = mode === "catch-up" ? "" : `&live=${mode}`;
  return `offset=${offset}${live}${format === "raw" ? "" : `&format=${format}`}`;
}

/** A server error leaves the outcome unknown; a refusal does not. */
function refusal(head: ReplyHead, text: string, isBare: boolean): Result {
  const { status } = head;
  if (status >= 500) return { kind: "unknown", why: String(status) };
  // A HEAD has no body that could carry the code.
  const code = isBare
    ? status === 410
      ? "stream-gone"
      : "stream-not-found"
    : (JSON.parse(text) as { code: string }).code;
  return {
    kind: "refused",
    status,
    code,
    next: offsetIn(head, "stream-next-offset"),
    earliest: offsetIn(head, "stream-earliest-offset"),
    expectedSeq: numberIn(head, "producer-expected-seq"),
  };
}

function offsetIn(head: ReplyHead, name: string): Position | undefined {
  const text = head.header(name);
  return text === undefined ? undefined : parseOffset(text);
}

function numberIn(head: ReplyHead, name: string): number | undefined {
  const text = head.header(name);
  return text === undefined ? undefined : Number(text);
}

function listedIn(text: string): Done["listed"] {
  const { streams } = JSON.parse(text) as { streams: { path: string; nextOffset: string; closed: boolean }[] };
  return streams.map(({ path, nextOffset, closed }) => ({ path, next: parseOffset(nextOffset)!, closed }));
}

function decodeBase64(text: string): string {
  return Buffer.from(text, "base64").toString();
}
