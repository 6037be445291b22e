/**
 * The unsent entries of a publisher, in order, packed into requests of bounded size. Consecutive texts become one message; a
 * text that does not fit is cut between characters. Knows sizes and numbers, no network. Owned by the publisher.
 *
 * Invariants: a packed message keeps its number and its content until it was sent; numbers have no holes.
 */
import { Encoded } from "./encoded.ts";
import { SluiceError } from "./error.ts";

export type Phase = "START" | "DELTA" | "ERROR" | "END";

export interface Entry {
  readonly phase: Phase;
  readonly payload: unknown;
}

/** A string can be joined and cut. Any other payload is JSON text already, so the caller may change the value afterwards. */
interface Stored {
  readonly phase: Phase;
  readonly payload: string | Encoded;
}

export interface Packed {
  readonly entries: readonly Stored[];
  readonly body: string;
  readonly bytes: number;
}

const encoder = new TextEncoder();
const FRAME_BYTES = '{"messages":[]}'.length;
/** The smallest request size that is tried; a channel with a lower limit is not usable. */
export const LEAST_BYTES = 512;

export class Outbox {
  /** Characters that wait, packed or not. */
  size = 0;
  private entries: Stored[] = [];
  private packed: Packed[] = [];

  constructor(
    private requestBytes: number,
    private sequence = 0,
  ) {}

  get isEmpty(): boolean {
    return this.entries.length === 0 && this.packed.length === 0;
  }

  /** Throws when the entry can never be sent. */
  put({ phase, payload }: Entry): void {
    const last = this.entries.at(-1);
    if (typeof payload !== "string") {
      const entry = { phase, payload: encodedOf(payload) };
      if (FRAME_BYTES + this.bytesOf(entry) > this.requestBytes) {
        const says = `a part that is not text must fit into a request of ${this.requestBytes} bytes`;
        throw new SluiceError("invalid-value", says);
      }
      this.entries.push(entry);
    } else if (phase === "DELTA" && last?.phase === "DELTA" && typeof last.payload === "string") {
      this.entries[this.entries.length - 1] = { phase, payload: last.payload + payload };
      this.size += payload.length;
      return;
    } else this.entries.push({ phase, payload });
    this.size += sizeOf(this.entries.at(-1)!.payload);
  }

  /** Returns the request to send next. */
  first(): Packed | undefined {
    if (this.packed.length === 0 && this.entries.length > 0) this.pack();
    return this.packed[0];
  }

  packAll(): readonly Packed[] {
    while (this.entries.length > 0) this.pack();
    return this.packed;
  }

  /** Called when the server has accepted the first request. */
  sent(): void {
    const { entries } = this.packed.shift()!;
    for (const { payload } of entries) this.size -= sizeOf(payload);
  }

  /**
   * Called when the server has refused the first request for its size and stored none of it: packs everything anew. Returns
   * false when it cannot be smaller.
   */
  packSmaller(): boolean {
    if (this.requestBytes <= LEAST_BYTES) return false;
    this.requestBytes = Math.max(LEAST_BYTES, Math.floor(Math.min(this.requestBytes, this.packed[0]!.bytes) / 2));
    const entries = this.packed.flatMap((packed) => packed.entries);
    this.sequence -= entries.length;
    this.entries = [...entries, ...this.entries];
    this.packed = [];
    return true;
  }

  clear(): void {
    this.entries = [];
    this.packed = [];
    this.size = 0;
  }

  private pack(): void {
    const taken: Stored[] = [];
    const messages: string[] = [];
    let bytes = FRAME_BYTES;
    for (let entry = this.entries[0]; entry !== undefined; entry = this.entries[0]) {
      const room = this.requestBytes - bytes - 1;
      const needed = this.bytesOf(entry);
      // An entry that fits no request goes alone, and the server decides.
      const fits = needed <= room ? entry : (this.cut(entry, room) ?? (taken.length === 0 ? entry : undefined));
      if (fits === undefined) break;
      if (fits === entry) this.entries.shift();
      else
        this.entries[0] = {
          phase: entry.phase,
          payload: (entry.payload as string).slice((fits.payload as string).length),
        };
      taken.push(fits);
      const message = messageOf(fits, this.sequence++);
      messages.push(message);
      bytes += byteLength(message) + 1;
      if (fits !== entry) break;
    }
    const body = messages.length === 1 ? messages[0]! : `{"messages":[${messages.join(",")}]}`;
    this.packed.push({ entries: taken, body, bytes: byteLength(body) });
  }

  /** Returns the longest beginning of a text that fits, or undefined when almost none of it does. */
  private cut({ phase, payload }: Stored, room: number): Stored | undefined {
    if (phase !== "DELTA" || typeof payload !== "string") return undefined;
    let length = Math.min(payload.length, room);
    while (length > 16) {
      const text = payload.slice(0, isInsidePair(payload, length) ? length - 1 : length);
      const needed = this.bytesOf({ phase, payload: text });
      if (needed <= room) return { phase, payload: text };
      length = Math.floor(Math.min(length * 0.9, (length * room) / needed));
    }
    return undefined;
  }

  private bytesOf(entry: Stored): number {
    return byteLength(messageOf(entry, this.sequence));
  }
}

function encodedOf(payload: unknown): Encoded {
  if (payload instanceof Encoded) return new Encoded(payload.text);
  const text = JSON.stringify(payload);
  if (text === undefined) throw new SluiceError("invalid-value", "what is published has no form in JSON");
  return new Encoded(text);
}

function messageOf({ phase, payload }: Stored, sequence: number): string {
  const json = typeof payload === "string" ? JSON.stringify(payload) : payload.text;
  return `{"phase":"${phase}","sequence":${sequence},"payload":${json}}`;
}

function isInsidePair(text: string, at: number): boolean {
  const code = text.charCodeAt(at - 1);
  return code >= 0xd800 && code <= 0xdbff;
}

function byteLength(text: string): number {
  return encoder.encode(text).length;
}

function sizeOf(payload: string | Encoded): number {
  return typeof payload === "string" ? payload.length : payload.text.length;
}
