/**
 * The events of a live connection as bytes: one JSON object each, as a server-sent event or as a WebSocket text frame. The hub
 * and the tabs use it.
 *
 * Invariants: the bytes of a page are the same for every tab of the same wire, so that they are made once. A frame from a server
 * is not masked (RFC 6455), so it may be shared. The payload of a JSON stream is never parsed or re-encoded.
 */
import { formatOffset, type Position } from "@sluice/protocol";
import { base64, concat, EMPTY, utf8 } from "../core/bytes.ts";
import type { Codec } from "../core/feed.ts";
import { textFrame } from "../core/socket.ts";
import type { LoggedMessage } from "../engine/contract.ts";
import type { StreamPage } from "../streams/reading.ts";
import { isJson, isText } from "../streams/state.ts";

export type LiveEvent =
  | { readonly type: "hello"; readonly sessionId: string }
  | { readonly type: "notify"; readonly streamId: string; readonly offset: string }
  /** `idle`: this node pushes the stream no more, until the client subscribes again. */
  | { readonly type: "closed" | "gone" | "idle"; readonly streamId: string; readonly epoch: number }
  | { readonly type: "bye"; readonly code: ByeCode; readonly reconnect: boolean; readonly retryMs: number };

/** Why the server ends a connection. */
export type ByeCode =
  | "displaced"
  | "session-not-found"
  | "token-expired"
  | "draining"
  | "time"
  | "slow-reader"
  | "unavailable";

/** How events travel on one kind of connection. */
export interface Wire {
  readonly name: "sse" | "websocket";
  /** One event as bytes, from the parts of its JSON. */
  frame(parts: readonly Uint8Array[]): Uint8Array;
}

const DATA = utf8("data: ");
const END = utf8("\n\n");

export const SSE_WIRE: Wire = {
  name: "sse",
  frame: (parts) => concat([DATA, ...parts.map(onOneLine), END]),
};

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;

/** Outside of strings JSON may hold line breaks, which would end the line of an SSE event. A space means the same there. */
function onOneLine(json: Uint8Array): Uint8Array {
  if (json.indexOf(NEWLINE) < 0 && json.indexOf(RETURN) < 0) return json;
  return json.map((byte) => (byte === NEWLINE || byte === RETURN ? SPACE : byte));
}

export const SOCKET_WIRE: Wire = { name: "websocket", frame: textFrame };

export function eventBytes(wire: Wire, event: object): Uint8Array {
  return wire.frame([utf8(JSON.stringify(event))]);
}

export interface Codecs {
  of(wire: Wire): Codec<StreamPage>;
  /** Messages whose payload was too large to push. Each counts once per wire, whatever the number of tabs. */
  readonly notified: number;
}

/**
 * One codec per wire. A payload above `notifyBytes` is announced, so that it does not stall the connection. `pushed` gets the
 * publish time of the first message of every page that is pushed.
 */
export function codecsFor(notifyBytes: number, pushed: (atMs: number) => void): Codecs {
  let notified = 0;
  const codec = (wire: Wire): Codec<StreamPage> => ({
    encode({ path, meta, messages }) {
      if (messages.length === 0) return EMPTY;
      return concat(
        messages.map((message) => {
          if (message.payload.length <= notifyBytes)
            return wire.frame(dataParts(path, meta.config.contentType, message));
          notified++;
          return eventBytes(wire, notifyOf(path, message.position));
        }),
      );
    },
    onShared({ messages: [first] }) {
      if (first !== undefined) pushed(first.at);
    },
  });
  const codecs = { sse: codec(SSE_WIRE), websocket: codec(SOCKET_WIRE) };
  return {
    of: ({ name }) => codecs[name],
    get notified() {
      return notified;
    },
  };
}

export function notifyOf(streamId: string, position: Position): LiveEvent {
  return { type: "notify", streamId, offset: formatOffset(position) };
}

const CLOSING = utf8("}");
/** A byte order mark belongs to the payload. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function dataParts(streamId: string, contentType: string, { position, payload }: LoggedMessage): Uint8Array[] {
  const about = { type: "data", streamId, offset: formatOffset(position), contentType };
  if (isJson(contentType)) return [utf8(`${JSON.stringify(about).slice(0, -1)},"payload":`), payload, CLOSING];
  const body = isText(contentType)
    ? { payload: decoder.decode(payload) }
    : { payload: base64(payload), encoding: "base64" };
  return [utf8(JSON.stringify({ ...about, ...body }))];
}
