/**
 * A live connection over a WebSocket: events as text frames, and requests of the client over the same connection.
 *
 * Invariants: a request is answered, or rejects when the connection ends. A page learns nothing of why a WebSocket could not be
 * opened, so neither does the error.
 */
import { SluiceError } from "../error.ts";
import { type AnswerEvent, eventIn, isAnswer } from "./events.ts";
import type { Credentials, Line, LineListener, Transport } from "./transport.ts";

/**
 * The part of a WebSocket that a session uses; the one of browsers and the package `ws` both have it. Each declares events of its own,
 * and `never` accepts a listener of any.
 */
export interface SocketLike {
  onmessage: ((message: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(): void;
}

/** Without the handlers, whose types differ between platforms. */
export type SocketClass = new (url: string) => Pick<SocketLike, "send" | "close">;

interface Asked {
  resolve(): void;
  reject(error: SluiceError): void;
}

export class SocketTransport implements Transport {
  readonly kind = "websocket";

  constructor(
    private readonly Socket: SocketClass,
    private readonly urlOf: (credentials: Credentials) => string,
  ) {}

  open(credentials: Credentials, listener: LineListener): Line {
    return new SocketLine(() => new this.Socket(this.urlOf(credentials)) as SocketLike, listener);
  }
}

class SocketLine implements Line {
  private readonly asked = new Map<number, Asked>();
  private socket: SocketLike | undefined;
  private refs = 0;
  private isOver = false;

  constructor(
    connect: () => SocketLike,
    private readonly listener: LineListener,
  ) {
    try {
      const socket = connect();
      this.socket = socket;
      socket.onmessage = ({ data }: { readonly data: unknown }) => this.take(data);
      socket.onclose = () => this.end("the connection was closed");
      // A close follows in browsers; `ws` emits an error that must be listened to.
      socket.onerror = () => this.end("the WebSocket could not be opened, or was cut off");
    } catch (cause) {
      // A page may forbid the address, and says so by an exception.
      queueMicrotask(() => this.end(`the WebSocket could not be made: ${cause}`));
    }
  }

  ask(type: "heartbeat", body: object): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.isOver) return reject(lost("the connection was closed"));
      const ref = ++this.refs;
      this.asked.set(ref, { resolve, reject });
      try {
        this.socket?.send(JSON.stringify({ type, ref, ...body }));
      } catch (cause) {
        this.asked.delete(ref);
        reject(lost(`the WebSocket takes nothing: ${cause}`));
      }
    });
  }

  close(): void {
    if (this.isOver) return;
    this.finish("the connection was closed");
  }

  private take(data: unknown): void {
    if (this.isOver) return;
    this.listener.heard();
    const text = String(data);
    let event: ReturnType<typeof eventIn>;
    try {
      event = eventIn(text);
    } catch (cause) {
      this.end(`the client does not understand the events: ${cause}`);
      return;
    }
    if (event === undefined) return;
    if (isAnswer(event)) this.answer(event);
    else this.listener.event(event, text.length);
  }

  private answer({ type, ref, code = "internal", detail = "the server refused" }: AnswerEvent): void {
    const asked = this.asked.get(ref);
    this.asked.delete(ref);
    if (type === "ok") asked?.resolve();
    else asked?.reject(new SluiceError(code, detail));
  }

  private end(says: string): void {
    if (this.isOver) return;
    this.finish(says);
    this.listener.end(lost(says));
  }

  private finish(says: string): void {
    this.isOver = true;
    for (const { reject } of this.asked.values()) reject(lost(says));
    this.asked.clear();
    try {
      this.socket?.close();
    } catch {
      // It is closed already, or was never open.
    }
  }
}

function lost(says: string): SluiceError {
  return new SluiceError("unreachable", says, { retryable: true });
}
