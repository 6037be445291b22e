// Many readers of one stream in this process, by SSE or WebSocket, on raw sockets. The saturated scenarios only count marker
// bytes, in one buffer that all sockets share, so that a delivery costs the reader almost nothing. The latency scenarios also
// read the stamp after each marker. The frames of a server are not masked, so markers and stamps can be read without parsing.

import { connect, type Socket } from "node:net";
import { countMarkers, MARKER } from "./message.ts";

const SHARED_BUFFER = Buffer.alloc(256 * 1024);
const CONNECTING_AT_ONCE = 64;

/** A stamp is the sender's clock in microseconds, in a fixed number of digits. */
export const STAMP_DIGITS = 14;

export interface Delivery {
  /** Messages received, summed over all readers. */
  deliveries: number;
  /** Messages that each reader has received. */
  readonly perReader: Float64Array;
  /** Readers whose connection ended before the benchmark closed it. */
  cutOff: number;
}

export class Readers {
  readonly delivery: Delivery;
  /** Called after every piece that holds a message. */
  onProgress: () => void = () => {};
  /** Called with each message's stamp, if the messages carry one. */
  onStamp: ((stampMicros: number) => void) | undefined;
  private readonly sockets: Socket[] = [];
  private readonly carried: string[];
  private closing = false;

  private constructor(count: number) {
    this.delivery = { deliveries: 0, perReader: new Float64Array(count), cutOff: 0 };
    this.carried = new Array<string>(count).fill("");
  }

  /** One reader per request, which is the first thing that it sends. */
  static async open(url: URL, requests: readonly string[], onStamp?: (stampMicros: number) => void): Promise<Readers> {
    const readers = new Readers(requests.length);
    readers.onStamp = onStamp;
    for (let first = 0; first < requests.length; first += CONNECTING_AT_ONCE) {
      const some = requests.slice(first, first + CONNECTING_AT_ONCE);
      await Promise.all(some.map((request, i) => readers.connectOne(url, request, first + i)));
    }
    return readers;
  }

  close(): void {
    this.closing = true;
    for (const socket of this.sockets) socket.destroy();
  }

  /** The smallest number of messages that a reader has received. */
  slowest(): number {
    return this.delivery.perReader.reduce((least, count) => Math.min(least, count), Number.POSITIVE_INFINITY);
  }

  private connectOne(url: URL, request: string, index: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect({
        host: url.hostname,
        port: Number(url.port),
        onread: {
          buffer: SHARED_BUFFER,
          callback: (length, buffer) => {
            this.receive(index, buffer as Buffer, length);
            resolve();
            return true;
          },
        },
      });
      socket.on("connect", () => void socket.write(request));
      socket.on("error", reject);
      socket.on("close", () => {
        if (!this.closing) this.delivery.cutOff++;
        reject(new Error("the server closed a connection before answering"));
      });
      this.sockets.push(socket);
    });
  }

  private receive(index: number, buffer: Buffer, length: number): void {
    const messages = countMarkers(buffer, length);
    if (messages === 0 && !this.onStamp) return;
    this.delivery.deliveries += messages;
    this.delivery.perReader[index]! += messages;
    if (this.onStamp) this.readStamps(index, buffer.toString("latin1", 0, length), this.onStamp);
    this.onProgress();
  }

  private readStamps(index: number, piece: string, onStamp: (stampMicros: number) => void): void {
    const text = this.carried[index] + piece;
    let at = text.indexOf(MARKER);
    while (at !== -1 && at + STAMP_DIGITS < text.length) {
      onStamp(Number(text.slice(at + 1, at + 1 + STAMP_DIGITS)));
      at = text.indexOf(MARKER, at + 1);
    }
    // The next piece completes a stamp that was cut in two.
    this.carried[index] = at === -1 ? "" : text.slice(at);
  }
}

export function sseRequest(url: URL, path: string): string {
  return `GET ${path}?offset=-1&live=sse HTTP/1.1\r\nHost: ${url.host}\r\nAccept: text/event-stream\r\n\r\n`;
}

/** The key is the example of RFC 6455; a server answers to any. */
export function webSocketRequest(url: URL, path: string): string {
  const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
  return `GET ${path} HTTP/1.1\r\nHost: ${url.host}\r\n${upgrade}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;
}
