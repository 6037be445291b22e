/**
 * Messages whose payload lies in another entity's log. The copy of a large message holds a short note in place of the
 * payload. Sessions write such copies; `Streams` puts the payload back when a client reads them.
 *
 * Invariants: only the server writes notes. A copied message loses any attribute of that name, because a client could
 * otherwise forge a note and read payloads of other streams.
 */
import { comparePositions, formatOffset, type Position, parseOffset } from "@sluice/protocol";
import { EMPTY } from "../core/bytes.ts";
import { type Engine, entity, type LoggedMessage, type Message } from "../engine/contract.ts";
import type { StreamPage } from "./reading.ts";
import { type CopyOf, renderCopy } from "./render.ts";

/** The attribute that holds the note. */
const NOTE = "$borrowed";

export interface Borrowed {
  /** The entity whose log has the payload. */
  readonly kind: string;
  readonly id: string;
  readonly position: Position;
  readonly bytes: number;
  /** The envelope in which the payload is put back; undefined for none. */
  readonly copyOf?: CopyOf | undefined;
}

/** The attributes that a copy may keep. */
export function ownAttributes({ attributes }: Message): Message["attributes"] {
  if (attributes === undefined || !Object.hasOwn(attributes, NOTE)) return attributes;
  const { [NOTE]: _, ...rest } = attributes;
  return rest;
}

export function borrowing(message: Message, { kind, id, position, bytes, copyOf }: Borrowed): Message {
  const note = JSON.stringify([kind, id, formatOffset(position), bytes, ...(copyOf ? [copyOf] : [])]);
  return { ...message, payload: EMPTY, attributes: { ...ownAttributes(message), [NOTE]: note } };
}

function borrowedOf({ attributes }: Message): Borrowed | undefined {
  const note = attributes?.[NOTE];
  if (note === undefined) return undefined;
  const [kind, id, offset, bytes, copyOf] = JSON.parse(note);
  const position = parseOffset(offset);
  if (position === undefined) throw new Error(`the note of a borrowed payload is damaged: ${note}`);
  return { kind, id, position, bytes, copyOf };
}

/** The page with all payloads in place. It ends early where the payloads would exceed `maxBytes`. */
export async function filled(engine: Engine, project: string, page: StreamPage, maxBytes: number): Promise<StreamPage> {
  const { messages } = page;
  if (!messages.some((message) => borrowedOf(message) !== undefined)) return page;
  const lender = new Lender(engine, project);
  const whole: LoggedMessage[] = [];
  let bytes = 0;
  for (const message of messages) {
    const note = borrowedOf(message);
    bytes += note?.bytes ?? message.payload.length;
    if (bytes > maxBytes && whole.length > 0) {
      return { ...page, messages: whole, next: whole.at(-1)!.position, atTail: false };
    }
    if (note === undefined) {
      whole.push(message);
      continue;
    }
    const payload = await lender.payload(note, maxBytes);
    // A failover can lose the end of one log and not of another. The copy is then lost with its payload.
    if (payload === undefined) continue;
    const attributes = ownAttributes(message);
    const isBare = attributes === undefined || Object.keys(attributes).length === 0;
    whole.push({
      ...message,
      payload: note.copyOf ? renderCopy(note.copyOf, payload) : payload,
      attributes: isBare ? undefined : attributes,
    });
  }
  return { ...page, messages: whole };
}

/** Reads payloads where they are stored. Adjacent payloads share one read. */
class Lender {
  private readonly read = new Map<string, readonly LoggedMessage[]>();

  constructor(
    private readonly engine: Engine,
    private readonly project: string,
  ) {}

  async payload({ kind, id, position }: Borrowed, maxBytes: number): Promise<Uint8Array | undefined> {
    const e = entity(this.project, kind, id);
    const known = find(this.read.get(e.key), position);
    if (known !== undefined) return known;
    const before = { generation: position.generation, seq: position.seq - 1 };
    const { messages } = await this.engine.read(e, before, maxBytes);
    this.read.set(e.key, messages);
    return find(messages, position);
  }
}

function find(messages: readonly LoggedMessage[] | undefined, position: Position): Uint8Array | undefined {
  const first = messages?.[0];
  if (messages === undefined || first === undefined) return undefined;
  const found = messages[position.seq - first.position.seq];
  return found !== undefined && comparePositions(found.position, position) === 0 ? found.payload : undefined;
}
