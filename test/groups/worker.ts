/**
 * A worker that processes messages of a group over its WebSocket and comes back under its name when its node dies: to the next node
 * that is alive. The tests that kill nodes start several.
 *
 * Invariants: it acknowledges each message a moment after it came, and tells the ledger what it was given and what was confirmed.
 */
import { parseOffset } from "@sluice/protocol";
import { WebSocket } from "ws";
import type { Frame } from "./consumer.ts";
import type { Ledger } from "./ledger.ts";

const AGAIN_MS = 100;
const PROCESS_MS = 5;

export class Worker {
  private socket: WebSocket | undefined;
  private isStopped = false;
  private turn = 0;

  constructor(
    /** The addresses of the nodes that are alive, the preferred one first. */
    private readonly nodes: () => readonly string[],
    private readonly member: string,
    private readonly topic: string,
    private readonly ledger: Ledger,
  ) {
    this.open();
  }

  stop(): void {
    this.isStopped = true;
    this.socket?.terminate();
  }

  private open(): void {
    if (this.isStopped) return;
    const nodes = this.nodes();
    const url = nodes[this.turn++ % nodes.length]!;
    const socket = new WebSocket(`${url.replace("http:", "ws:")}/v1/consume?member=${this.member}`);
    this.socket = socket;
    socket.on("open", () => this.send({ type: "subscribe", id: "s", topic: this.topic, from: "earliest" }));
    socket.on("message", (data) => this.take(JSON.parse(data.toString())));
    socket.on("error", () => {});
    socket.on("close", () => setTimeout(() => this.open(), AGAIN_MS));
  }

  private send(frame: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  private take(frame: Frame): void {
    const { type, stream = "", offset = "", epoch, lease } = frame;
    const { ledger, member } = this;
    const seq = parseOffset(offset)?.seq ?? 0;
    if (type === "granted") ledger.granted(stream, epoch!, member);
    else if (type === "acked") {
      if (this.topic.startsWith("$queue")) ledger.settled(stream, seq);
      else ledger.confirmed(stream, seq);
    } else if (type === "message") {
      if (lease === undefined) ledger.delivered(stream, seq, epoch!);
      else ledger.leased(stream, seq, lease);
      const { socket } = this;
      setTimeout(() => {
        // What a client has processed counts, whether its acknowledgement arrives or not.
        ledger.processed(stream, seq);
        if (this.socket === socket) this.send({ type: "ack", id: "s", stream, offset, epoch, lease });
      }, PROCESS_MS);
    } else if (type === "gap") ledger.object(`${member} was told of a gap in ${stream}`);
  }
}
