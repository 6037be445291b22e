/**
 * One request of an appender: messages of one content type in the order of their appends, with one promise for all. Made by
 * the appender.
 *
 * Invariants: a batch that may have been sent accepts no further messages and keeps its number. Only JSON messages share a
 * batch; an encoded body, a message with metadata and the end of the stream each get their own.
 */
import { header } from "@sluice/protocol";
import type { Numbered } from "./producer.ts";

/** A message as it goes over the wire: JSON text, or the payload itself. */
export type Body = string | Uint8Array;

export interface AppendResult {
  /** Where the stream ended when the server acknowledged the append; the message lies at or before it. */
  readonly offset: string;
  /**
   * The server has lost its record of this client's earlier appends: the stream was created anew, or a failover lost its
   * end. Readers get a gap.
   */
  readonly historyLost: boolean;
}

/** The copies into the sessions that follow the stream, as far as the server waited for them. */
export interface Fanout {
  /**
   * `inline`: the server has made the copies. Any other mode: it makes them later, and counts neither success nor failure.
   */
  readonly mode: string;
  /** Sessions that follow the stream. */
  readonly count: number;
  readonly successes: number;
  /** Copies that the server makes later, because a session could not take them now. */
  readonly failures: number;
}

export interface PublishResult extends AppendResult {
  /** The copies of the whole request; values published at the same time share it. */
  readonly fanout: Fanout;
}

export interface Metadata {
  readonly id?: string | undefined;
  /** The ordering key. */
  readonly key?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  /** `Stream-Seq`: the server refuses a value that does not sort after the last one, with `sequence-regression`. */
  readonly seq?: string | undefined;
}

export type Create = () => Promise<void>;

/** The arguments of one call of `append` or `publish`. */
export interface Outgoing {
  readonly body: Body;
  readonly contentType: string;
  readonly metadata?: Metadata | undefined;
  /** Creates the stream when it does not exist; undefined when it must exist. */
  readonly create?: Create | undefined;
  /** The body is that of a whole request. */
  readonly isEncoded?: boolean | undefined;
  /** Whether the server should wait for the copies into sessions. */
  readonly isPublish?: boolean | undefined;
  /** Closes the stream behind the message, or at once when the body is empty. */
  readonly closes?: boolean | undefined;
}

export class Batch {
  size = 0;
  /** Closed to further messages, because the batch is on its way or full. */
  isSealed = false;
  numbered: Numbered | undefined;
  historyLost = false;
  create: Create | undefined;
  readonly bodies: Body[] = [];
  readonly promise: Promise<AppendResult>;
  resolve!: (result: AppendResult) => void;
  reject!: (error: unknown) => void;

  constructor(private readonly first: Outgoing) {
    this.create = first.create;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // A caller that ignores the promise hears of the failure from `flush`.
    this.promise.catch(() => {});
    this.push(first.body);
    // Only a JSON array keeps messages apart, and metadata belongs to the one message it came with.
    const { contentType, metadata, isEncoded, closes } = first;
    this.isSealed = !isJson(contentType) || metadata !== undefined || isEncoded === true || closes === true;
  }

  get isPublish(): boolean {
    return this.first.isPublish === true;
  }

  get closes(): boolean {
    return this.first.closes === true;
  }

  /** Closes and appends nothing, which is idempotent also without a number. */
  get isOnlyClosing(): boolean {
    return this.closes && this.size === 0;
  }

  takes({ contentType, metadata, isEncoded, isPublish = false, closes }: Outgoing): boolean {
    const isAlike = contentType === this.first.contentType && isPublish === this.isPublish;
    return !this.isSealed && isAlike && metadata === undefined && !isEncoded && !closes;
  }

  push(body: Body): void {
    this.bodies.push(body);
    this.size += body.length;
  }

  get payload(): Body | undefined {
    const { contentType, isEncoded } = this.first;
    if (this.isOnlyClosing) return undefined;
    return isJson(contentType) && !isEncoded ? `[${this.bodies.join(",")}]` : this.bodies[0]!;
  }

  get headers(): Record<string, string | undefined> {
    const { contentType, metadata: { id, key, attributes, seq } = {} } = this.first;
    return {
      [header.contentType]: this.isOnlyClosing ? undefined : contentType,
      [header.messageId]: id,
      [header.messageKey]: key,
      [header.messageAttributes]: attributes && asciiJson(attributes),
      [header.streamSeq]: seq,
      [header.streamClosed]: this.closes ? "true" : undefined,
    };
  }

  /** The result for the callers, from the headers of the answer. */
  resultOf(headers: Headers): AppendResult | PublishResult {
    const result = { offset: headers.get(header.streamNextOffset) ?? "", historyLost: this.historyLost };
    return this.isPublish ? { ...result, fanout: fanoutOf(headers) } : result;
  }

  /** Splits the batch in two. The second half settles this batch, and cannot succeed without the first. */
  halves(): [Batch, Batch] {
    const half = this.bodies.length >> 1;
    const first = this.part(this.bodies.slice(0, half));
    const second = this.part(this.bodies.slice(half));
    second.promise.then(this.resolve, this.reject);
    return [first, second];
  }

  private part([body, ...more]: readonly Body[]): Batch {
    const part = new Batch({ ...this.first, body: body!, create: this.create });
    for (const one of more) part.push(one);
    part.isSealed = true;
    return part;
  }
}

function fanoutOf(headers: Headers): Fanout {
  const number = (name: string) => Number(headers.get(name) ?? 0);
  return {
    mode: headers.get(header.fanoutMode) ?? "",
    count: number(header.fanoutCount),
    successes: number(header.fanoutSuccesses),
    failures: number(header.fanoutFailures),
  };
}

/** A header carries no other characters, and JSON can escape them. */
function asciiJson(value: unknown): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[\x7f-\uffff]/g, escaped);
}

export function isJson(contentType: string): boolean {
  const type = contentType.split(";", 1)[0]!.trim().toLowerCase();
  return type === "application/json" || type.endsWith("+json");
}
