/**
 * A live connection over a WebSocket: events as text frames, and requests of the client over the same connection.
 *
 * Invariants: a request is answered, or rejects when the connection ends.
 */
import { SluiceError } from "../error.ts";
import { lost, type SocketClass, type SocketLike, TextSocket } from "../text-socket.ts";
import { type AnswerEvent, eventIn, isAnswer } from "./events.ts";
import type { Credentials, Line, LineListener, Transport } from "./transport.ts";

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
  private readonly socket: TextSocket;
  private refs = 0;

  constructor(
    connect: () => SocketLike,
    private readonly listener: LineListener,
  ) {
    this.socket = new TextSocket(connect, { text: (text) => this.take(text), end: (error) => this.end(error) });
  }

  ask(type: "heartbeat", body: object): Promise<void> {
    return new Promise((resolve, reject) => {
      const ref = ++this.refs;
      this.socket.send(JSON.stringify({ type, ref, ...body }));
      this.asked.set(ref, { resolve, reject });
    });
  }

  close(): void {
    this.finish(lost("the connection was closed"));
  }

  private take(text: string): void {
    this.listener.heard();
    let event: ReturnType<typeof eventIn>;
    try {
      event = eventIn(text);
    } catch (cause) {
      this.end(lost(`the client does not understand the events: ${cause}`));
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

  private end(error: SluiceError): void {
    this.finish(error);
    this.listener.end(error);
  }

  private finish(error: SluiceError): void {
    for (const { reject } of this.asked.values()) reject(error);
    this.asked.clear();
    this.socket.close();
  }
}
