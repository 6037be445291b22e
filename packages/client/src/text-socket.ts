/**
 * A WebSocket that carries text: the one of browsers, the one of Node, or the class of the package `ws`. The socket transport of
 * live sessions and the lines of groups each make one per connection.
 *
 * Invariants: `end` is called once, and never from within the constructor. After `close` no method of the listener is called. A
 * page learns nothing of why a WebSocket could not be opened, so neither does the error.
 */
import { SluiceError } from "./error.ts";

/**
 * The part of a WebSocket that is used; the one of browsers and the package `ws` both have it. Each declares events of its own, and
 * `never` accepts a listener of any.
 */
export interface SocketLike {
  onopen?: ((event: never) => void) | null;
  onmessage: ((message: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(): void;
}

/** Without the handlers, whose types differ between platforms. */
export type SocketClass = new (url: string) => Pick<SocketLike, "send" | "close">;

export interface SocketListener {
  /** The socket takes text from now on. */
  opened?(): void;
  text(text: string): void;
  end(error: SluiceError): void;
}

export class TextSocket {
  private socket: SocketLike | undefined;
  private isOver = false;

  constructor(
    connect: () => SocketLike,
    private readonly listener: SocketListener,
  ) {
    try {
      const socket = connect();
      this.socket = socket;
      socket.onopen = () => this.isOver || listener.opened?.();
      socket.onmessage = ({ data }: { readonly data: unknown }) => this.isOver || listener.text(String(data));
      socket.onclose = () => this.end(lost("the connection was closed"));
      // A close follows in browsers; `ws` emits an error that must be listened to.
      socket.onerror = () => this.end(lost("the WebSocket could not be opened, or was cut off"));
    } catch (cause) {
      // A page may forbid the address, and says so by an exception.
      queueMicrotask(() =>
        this.end(cause instanceof SluiceError ? cause : lost(`the WebSocket could not be made: ${cause}`)),
      );
    }
  }

  /** Throws a SluiceError if the socket takes nothing. */
  send(text: string): void {
    if (this.isOver) throw lost("the connection was closed");
    try {
      this.socket?.send(text);
    } catch (cause) {
      throw lost(`the WebSocket takes nothing: ${cause}`);
    }
  }

  close(): void {
    this.isOver = true;
    try {
      this.socket?.close();
    } catch {
      // It is closed already, or was never open.
    }
  }

  private end(error: SluiceError): void {
    if (this.isOver) return;
    this.close();
    this.listener.end(error);
  }
}

export function lost(says: string): SluiceError {
  return new SluiceError("unreachable", says, { retryable: true });
}
