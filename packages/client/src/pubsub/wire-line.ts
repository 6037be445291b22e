/**
 * One connection to `/pull`: frames and their answers, and the streams that are open on it. A wire opens one after another.
 *
 * Invariants: every question is answered or fails, at the latest when the connection ends. `end` ends every stream as `moved`, so
 * that the subscriber opens it again elsewhere. A connection that is silent for longer than a live server ever is, is ended.
 */
import { type ErrorCode, errors } from "@sluice/protocol";
import type { Delivery, StreamEnd, StreamEvents, StreamNotice } from "@sluice/protocol/pull";
import { SluiceError } from "../error.ts";
import { type SocketLike, TextSocket } from "../text-socket.ts";

/** A socket opens within this time, or is given up. */
const OPEN_MS = 10_000;
/** After this silence the line asks for a sign of life, and after three times as long it ends. */
const ASK_MS = 15_000;
const SILENCE_MS = 3 * ASK_MS;

interface Question {
  resolve(answer: Answer): void;
  reject(error: SluiceError): void;
}

/** The members of an `ok`. */
export type Answer = Readonly<Record<string, unknown>>;

type WireDelivery = Omit<Delivery, "data"> & { readonly data: string };

type ServerFrame =
  | ({ readonly type: "ok"; readonly ref: number } & Answer)
  | { readonly type: "error"; readonly ref?: number; readonly code: string; readonly detail: string }
  | { readonly type: "messages"; readonly stream: string; readonly messages: readonly WireDelivery[] }
  | { readonly type: "notice"; readonly stream: string; readonly what: StreamNotice }
  | { readonly type: "ended"; readonly stream: string; readonly why: StreamEnd }
  | { readonly type: "bye"; readonly code: string; readonly reconnect: boolean; readonly retryMs: number };

export class WireLine {
  private readonly socket: TextSocket;
  private readonly questions = new Map<number, Question>();
  private readonly streams = new Map<string, StreamEvents>();
  private refs = 0;
  private heardMs = performance.now();
  private isOpen = false;
  private isOver = false;
  private timer: ReturnType<typeof setTimeout>;

  constructor(
    connect: () => SocketLike,
    private readonly listener: { opened(): void; ended(error: SluiceError): void },
  ) {
    this.timer = setTimeout(this.watch, OPEN_MS);
    this.socket = new TextSocket(connect, {
      opened: () => {
        this.isOpen = true;
        this.heardMs = performance.now();
        listener.opened();
      },
      text: (text) => this.hear(text),
      end: (error) => this.end(error),
    });
  }

  ask(type: string, members: object): Promise<Answer> {
    const ref = ++this.refs;
    return new Promise((resolve, reject) => {
      this.questions.set(ref, { resolve, reject });
      this.send({ ...members, type, ref });
    });
  }

  /** Sends a frame that needs no answer. */
  send(frame: object): void {
    if (this.isOver) return;
    try {
      this.socket.send(JSON.stringify(frame));
    } catch (error) {
      // The caller is in the middle of its own work.
      queueMicrotask(() => this.end(error as SluiceError));
    }
  }

  addStream(id: string, to: StreamEvents): void {
    this.streams.set(id, to);
  }

  removeStream(id: string): void {
    this.streams.delete(id);
  }

  end(error: SluiceError): void {
    if (this.isOver) return;
    this.isOver = true;
    clearTimeout(this.timer);
    this.socket.close();
    for (const { reject } of this.questions.values()) reject(error);
    this.questions.clear();
    const streams = [...this.streams.values()];
    this.streams.clear();
    this.listener.ended(error);
    for (const stream of streams) stream.ended("moved");
  }

  private readonly watch = (): void => {
    const silentMs = performance.now() - this.heardMs;
    if (!this.isOpen || silentMs >= SILENCE_MS) {
      this.end(new SluiceError("timeout", "the server is silent", { retryable: true }));
      return;
    }
    if (silentMs >= ASK_MS) this.send({ type: "ping", ref: 0 });
    this.timer = setTimeout(this.watch, ASK_MS);
  };

  private hear(text: string): void {
    this.heardMs = performance.now();
    let frame: ServerFrame;
    try {
      frame = JSON.parse(text);
    } catch (cause) {
      this.end(new SluiceError("bad-answer", "the server sent a frame that is not JSON", { cause, retryable: true }));
      return;
    }
    this.take(frame);
  }

  private take(frame: ServerFrame): void {
    switch (frame.type) {
      case "messages":
        this.streams.get(frame.stream)?.deliver(frame.messages.map(deliveryIn));
        return;
      case "ok":
        this.questionOf(frame.ref)?.resolve(frame);
        return;
      case "error":
        this.questionOf(frame.ref)?.reject(refusalIn(frame));
        return;
      case "notice":
        this.streams.get(frame.stream)?.notice?.(frame.what);
        return;
      case "ended": {
        const stream = this.streams.get(frame.stream);
        this.streams.delete(frame.stream);
        stream?.ended(frame.why);
        return;
      }
      case "bye": {
        const { code, reconnect, retryMs } = frame;
        const details = { retryable: reconnect, retryAfterMs: retryMs };
        this.end(new SluiceError(code, `the server has ended the connection: ${code}`, details));
      }
    }
  }

  private questionOf(ref: number | undefined): Question | undefined {
    const question = this.questions.get(ref ?? 0);
    this.questions.delete(ref ?? 0);
    return question;
  }
}

function deliveryIn(message: WireDelivery): Delivery {
  return { ...message, data: Buffer.from(message.data, "base64") };
}

function refusalIn({ code, detail }: { readonly code: string; readonly detail: string }): SluiceError {
  const known = Object.hasOwn(errors, code) ? errors[code as ErrorCode] : undefined;
  return new SluiceError(code, detail, { status: known?.status, retryable: known?.retryable });
}
