/**
 * One request of an appender: messages of one content type in the order of their appends, with one promise for all. Made by
 * the appender.
 *
 * Invariants: a batch that may have been sent accepts no further messages and keeps its number. Only JSON messages share a
 * batch; an encoded body and a message with metadata each get their own.
 */
import { header } from "@sluice/protocol";

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
}

/** The number of a request: the server accepts each (epoch, seq) once, in order. */
export interface Numbered {
  readonly epoch: number;
  readonly seq: number;
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
    this.isSealed = !isJson(first.contentType) || first.metadata !== undefined || first.isEncoded === true;
  }

  get isPublish(): boolean {
    return this.first.isPublish === true;
  }

  takes({ contentType, metadata, isEncoded, isPublish = false }: Outgoing): boolean {
    const isAlike = contentType === this.first.contentType && isPublish === this.isPublish;
    return !this.isSealed && isAlike && metadata === undefined && !isEncoded;
  }

  push(body: Body): void {
    this.bodies.push(body);
    this.size += body.length;
  }

  get payload(): Body {
    const { contentType, isEncoded } = this.first;
    return isJson(contentType) && !isEncoded ? `[${this.bodies.join(",")}]` : this.bodies[0]!;
  }

  get headers(): Record<string, string | undefined> {
    const { contentType, metadata: { id, key, attributes } = {} } = this.first;
    return {
      [header.contentType]: contentType,
      [header.messageId]: id,
      [header.messageKey]: key,
      [header.messageAttributes]: attributes && JSON.stringify(attributes),
    };
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

export function isJson(contentType: string): boolean {
  const type = contentType.split(";", 1)[0]!.trim().toLowerCase();
  return type === "application/json" || type.endsWith("+json");
}
