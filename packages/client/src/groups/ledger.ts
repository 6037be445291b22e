/**
 * The acknowledgements of one connection: which are to be sent, which wait for the server's word. The line owns one, of the kind
 * of its group.
 *
 * Invariants: an acknowledgement resolves when the server has said that it is durable, and rejects when it cannot be any more. Of
 * a stream of a `share` group one frame is under way at a time, and the next carries all that came meanwhile.
 */
import { SluiceError } from "../error.ts";
import type { Delivery } from "./delivery.ts";
import type { ErrorFrame } from "./frames.ts";

export interface Ledger {
  /** Acknowledgements that wait for the server's word. */
  readonly size: number;
  ack(delivery: Delivery<unknown>): Promise<void>;
  acked(stream: string, offset: string): void;
  /** The server has refused a frame about a message. */
  refused(frame: ErrorFrame): void;
  /** The connection has ended. */
  lose(error: SluiceError): void;
}

interface Waiting {
  readonly offset: string;
  readonly lease: number | undefined;
  resolve(): void;
  reject(error: SluiceError): void;
}

type Send = (frame: object) => void;

interface Grant {
  readonly epoch: number;
  /** The last message that is acknowledged, that was told to the server, and that the server has confirmed. */
  wanted: string;
  sent: string;
  confirmed: string;
  unsent: number;
  /** In the order of their offsets, mostly. */
  waiting: Waiting[];
}

/** So many acknowledgements do not wait for the answer to those before, because the member's credit is bound in them. */
const UNSENT = 32;

export class ShareLedger implements Ledger {
  private readonly grants = new Map<string, Grant>();

  constructor(private readonly send: Send) {}

  get size(): number {
    let sum = 0;
    for (const { waiting } of this.grants.values()) sum += waiting.length;
    return sum;
  }

  granted(stream: string, epoch: number): void {
    this.revoked(stream);
    this.grants.set(stream, { epoch, wanted: "", sent: "", confirmed: "", unsent: 0, waiting: [] });
  }

  /** The server waits for what it does not know yet. */
  revoking(stream: string): void {
    const grant = this.grants.get(stream);
    if (grant !== undefined) this.flush(stream, grant);
  }

  revoked(stream: string): void {
    const grant = this.grants.get(stream);
    this.grants.delete(stream);
    for (const { reject } of grant?.waiting ?? []) reject(fenced(stream));
  }

  async ack({ stream, offset, epoch }: Delivery<unknown>): Promise<void> {
    const grant = this.grants.get(stream);
    if (grant?.epoch !== epoch) throw fenced(stream);
    if (offset <= grant!.confirmed) return;
    return new Promise((resolve, reject) => {
      grant!.waiting.push({ offset, lease: undefined, resolve, reject });
      if (offset <= grant!.wanted) return;
      grant!.wanted = offset;
      grant!.unsent++;
      if (grant!.sent === grant!.confirmed || grant!.unsent >= UNSENT) this.flush(stream, grant!);
    });
  }

  private flush(stream: string, grant: Grant): void {
    const { epoch, wanted: offset } = grant;
    if (offset === grant.sent) return;
    grant.sent = offset;
    grant.unsent = 0;
    this.send({ type: "ack", stream, offset, epoch });
  }

  acked(stream: string, offset: string): void {
    const grant = this.grants.get(stream);
    if (grant === undefined) return;
    if (offset > grant.confirmed) grant.confirmed = offset;
    const { waiting, sent } = grant;
    grant.waiting = waiting.filter((one) => one.offset > offset);
    for (const one of waiting) if (one.offset <= offset) one.resolve();
    // The server may know of more than it was told here: a closed stream is processed up to its end.
    if (grant.confirmed > sent) grant.sent = grant.confirmed;
    if (grant.wanted > grant.sent && grant.sent === grant.confirmed) this.flush(stream, grant);
  }

  refused({ stream = "", offset = "", epoch, code, detail }: ErrorFrame): void {
    const grant = this.grants.get(stream);
    if (grant?.epoch !== epoch) return;
    const { waiting } = grant!;
    grant!.waiting = waiting.filter((one) => one.offset > offset);
    for (const one of waiting) if (one.offset <= offset) one.reject(new SluiceError(code, detail, { offset }));
  }

  lose(error: SluiceError): void {
    for (const { waiting } of this.grants.values()) for (const { reject } of waiting) reject(error);
    this.grants.clear();
  }
}

export class QueueLedger implements Ledger {
  private readonly waiting = new Map<string, Waiting[]>();

  constructor(private readonly send: Send) {}

  get size(): number {
    return this.waiting.size;
  }

  ack({ stream, offset, lease }: Delivery<unknown>): Promise<void> {
    return new Promise((resolve, reject) => {
      const key = keyOf(stream, offset);
      const one = { offset, lease, resolve, reject };
      const others = this.waiting.get(key);
      if (others === undefined) this.waiting.set(key, [one]);
      else others.push(one);
      this.send({ type: "ack", stream, offset, lease });
    });
  }

  /** A message that came under two leases is processed by either. */
  acked(stream: string, offset: string): void {
    const key = keyOf(stream, offset);
    const waiting = this.waiting.get(key) ?? [];
    this.waiting.delete(key);
    for (const { resolve } of waiting) resolve();
  }

  refused({ stream = "", offset = "", lease, code, detail }: ErrorFrame): void {
    const key = keyOf(stream, offset);
    const waiting = this.waiting.get(key) ?? [];
    const rest = waiting.filter((one) => one.lease !== lease);
    if (rest.length > 0) this.waiting.set(key, rest);
    else this.waiting.delete(key);
    for (const one of waiting) if (one.lease === lease) one.reject(new SluiceError(code, detail, { offset }));
  }

  lose(error: SluiceError): void {
    for (const waiting of this.waiting.values()) for (const { reject } of waiting) reject(error);
    this.waiting.clear();
  }
}

/** No path holds a line end. */
function keyOf(stream: string, offset: string): string {
  return `${offset}\n${stream}`;
}

export function fenced(stream: string): SluiceError {
  return new SluiceError("fenced", `${stream} was taken away from this member; the message is delivered again`);
}
