// Many SSE readers of one stream in this process, on raw sockets. The saturated scenario only counts marker bytes, in one buffer
// that all sockets share, so that a delivery costs the reader almost nothing. The latency scenario also reads the stamp after
// each marker.

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

export class SseReaders {
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

  static async open(
    url: URL,
    path: string,
    count: number,
    onStamp?: (stampMicros: number) => void,
  ): Promise<SseReaders> {
    const readers = new SseReaders(count);
    readers.onStamp = onStamp;
    for (let first = 0; first < count; first += CONNECTING_AT_ONCE) {
      const last = Math.min(count, first + CONNECTING_AT_ONCE);
      await Promise.all(Array.from({ length: last - first }, (_, i) => readers.connectOne(url, path, first + i)));
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

  private connectOne(url: URL, path: string, index: number): Promise<void> {
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
      socket.on("connect", () => {
        socket.write(
          `GET ${path}?offset=-1&live=sse HTTP/1.1\r\nHost: ${url.host}\r\nAccept: text/event-stream\r\n\r\n`,
        );
      });
      socket.on("error", reject);
      socket.on("close", () => {
        if (!this.closing) this.delivery.cutOff++;
        reject(new Error("the server closed an SSE connection before answering"));
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
