/**
 * What is sent as one request: messages of one content type, in the order in which they were appended, with one promise for
 * all of them and, once it may have been sent, a number that never changes. Owned by the appender.
 */
import { header } from "@sluice/protocol";

/** A message as it goes over the wire: JSON text, or the payload itself. */
export type Body = string | Uint8Array;

export interface AppendResult {
  /** Where the stream ended when this was acknowledged; the message lies at or before it. */
  readonly offset: string;
  /**
   * The server does not know any more what this client appended before: the stream was created anew, or a failover has
   * lost its end. Readers are told by a gap.
   */
  readonly historyLost: boolean;
}

export interface Metadata {
  readonly id?: string | undefined;
  /** The ordering key. */
  readonly key?: string | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
}

/** (epoch, seq) of a request: the server takes each once, in order. */
export interface Numbered {
  readonly epoch: number;
  readonly seq: number;
}

export type Create = () => Promise<void>;

export class Batch {
  size = 0;
  /** Closed to further messages: it is on its way, or full. */
  isSealed = false;
  numbered: Numbered | undefined;
  historyLost = false;
  /** Makes the stream when it is not there; undefined when it must be. */
  create: Create | undefined;
  readonly promise: Promise<AppendResult>;
  resolve!: (result: AppendResult) => void;
  reject!: (error: unknown) => void;

  constructor(
    readonly contentType: string,
    readonly metadata: Metadata | undefined,
    readonly bodies: Body[] = [],
  ) {
    for (const body of bodies) this.size += body.length;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Somebody who does not look at the promise hears of the failure from `flush`.
    this.promise.catch(() => {});
    // Only an array of JSON keeps its messages apart, and metadata is of the one message that came with it.
    if (!isJson(contentType) || metadata !== undefined) this.isSealed = bodies.length > 0;
  }

  takes(contentType: string, metadata: Metadata | undefined): boolean {
    return !this.isSealed && metadata === undefined && contentType === this.contentType;
  }

  push(body: Body): void {
    this.bodies.push(body);
    this.size += body.length;
  }

  get payload(): Body {
    return isJson(this.contentType) ? `[${this.bodies.join(",")}]` : this.bodies[0]!;
  }

  get headers(): Record<string, string | undefined> {
    const { id, key, attributes } = this.metadata ?? {};
    return {
      [header.contentType]: this.contentType,
      [header.messageId]: id,
      [header.messageKey]: key,
      [header.messageAttributes]: attributes && JSON.stringify(attributes),
    };
  }

  /** Two halves; the second settles this one, and cannot succeed without the first. */
  halves(): [Batch, Batch] {
    const half = this.bodies.length >> 1;
    const first = new Batch(this.contentType, undefined, this.bodies.slice(0, half));
    const second = new Batch(this.contentType, undefined, this.bodies.slice(half));
    first.create = this.create;
    second.create = this.create;
    first.isSealed = true;
    second.isSealed = true;
    second.promise.then(this.resolve, this.reject);
    return [first, second];
  }
}

export function isJson(contentType: string): boolean {
  const type = contentType.split(";", 1)[0]!.trim().toLowerCase();
  return type === "application/json" || type.endsWith("+json");
}
