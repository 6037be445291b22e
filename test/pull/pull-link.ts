/**
 * A server of pull without a network: a WebSocket class and a `fetch` that reach its routes in the same process. Tests of clients on
 * a clock of their own use it.
 *
 * Invariants: what a client sends and gets are the frames and bodies of the wire. `cut` ends all connections without a word.
 */
import { onTestFinished } from "vitest";
import type { SocketClass } from "../../packages/client/src/text-socket.ts";
import { FULL_ACCESS } from "../../packages/server/src/core/action.ts";
import type { HttpRequest } from "../../packages/server/src/core/http.ts";
import type { Call } from "../../packages/server/src/core/route.ts";
import type { Socket } from "../../packages/server/src/core/socket.ts";
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import type { EngineName } from "../e2e/server.ts";
import type { QuietWorld } from "../support/quiet-world.ts";
import { pullEngine } from "./pull-engine.ts";
import { PullNode } from "./pull-world.ts";

export class PullLink {
  readonly node: PullNode;
  private readonly ends = new Set<LinkedSocket>();

  private constructor(engine: Engine, world: QuietWorld) {
    this.node = new PullNode(engine, world);
  }

  static async open(engine: EngineName, world: QuietWorld): Promise<PullLink> {
    const link = new PullLink(await pullEngine(engine, world), world);
    onTestFinished(() => link.node.feature.stop());
    return link;
  }

  private handle(name: string, stream: string | undefined, request: Partial<HttpRequest>) {
    const route = this.node.feature.routes.find((one) => one.name === name)!;
    const call = { project: "default", stream, access: FULL_ACCESS } as Call;
    return route.handle(call, request as HttpRequest);
  }

  readonly fetch: typeof fetch = async (address, init) => {
    const topic = /\/topics\/(.*)$/.exec(String(address))![1]!;
    const bytes = Buffer.from(String(init!.body));
    const reply = await this.handle("pull.publish", topic, { body: async () => ({ kind: "body", bytes }) as never });
    return new Response(reply.body as string, { status: reply.status });
  };

  cut(): void {
    for (const end of this.ends) end.cut();
  }

  readonly WebSocket = socketsTo(this);

  connect(socket: LinkedSocket): void {
    this.ends.add(socket);
    const reply = this.handle("pull.connect", undefined, { isUpgrade: true, onGone: () => {} });
    (reply as { socket(given: Socket): void }).socket(socket.far);
  }
}

function socketsTo(link: PullLink): SocketClass {
  return class extends LinkedSocket {
    constructor(_url: string) {
      super();
      link.connect(this);
    }
  };
}

/** Both ends of a WebSocket. */
class LinkedSocket {
  onopen: (() => void) | null = null;
  onmessage: ((message: { readonly data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  private listener: (text: string) => Promise<void> = async () => {};
  private readonly goneTasks: (() => void)[] = [];
  private isOver = false;
  private last = Promise.resolve();

  constructor() {
    queueMicrotask(() => this.onopen?.());
  }

  /** The end of the server. */
  readonly far: Socket = {
    buffered: 0,
    write: (bytes) => {
      const text = textIn(bytes);
      queueMicrotask(() => this.isOver || this.onmessage?.({ data: text }));
    },
    onText: (listener) => {
      this.listener = listener;
    },
    onDrain: (task) => queueMicrotask(task),
    onGone: (task) => void this.goneTasks.push(task),
    end: () => queueMicrotask(() => this.cut()),
    cut: () => queueMicrotask(() => this.cut()),
  };

  /** As through a door: one frame after another. */
  send(text: string): void {
    this.last = this.last.then(() => this.listener(text));
  }

  close(): void {
    this.cut();
  }

  cut(): void {
    if (this.isOver) return;
    this.isOver = true;
    for (const task of this.goneTasks) task();
    this.onclose?.();
  }
}

/** The payload of a frame of a server, as RFC 6455 lays it out. */
function textIn(frame: Uint8Array): string {
  const length = frame[1]!;
  return Buffer.from(frame.subarray(length < 126 ? 2 : length === 126 ? 4 : 10)).toString();
}
