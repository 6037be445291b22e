/**
 * A connection that a test can cut: forwards a port to another until told otherwise. Tests of the client, the examples and
 * Redis use it.
 *
 * Invariants: `cut` drops all bytes and closes nothing, like a network that has gone away. `heal` closes the open
 * connections, so that both ends reconnect.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private isCut = false;
  private isMute = false;
  private isShut = false;
  private readonly held = new Map<Socket, { readonly chunk: Buffer; readonly to: Socket }[]>();

  private constructor(
    private readonly server: Server,
    readonly port: number,
    private readonly delayMs: number,
  ) {}

  /** `delayMs`: how much later all bytes arrive, in both directions. Port 0 takes a free one. */
  static async open(port: number, targetPort: number, delayMs = 0): Promise<TcpProxy> {
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    const proxy = new TcpProxy(server, (server.address() as AddressInfo).port, delayMs);
    server.on("connection", (socket) => {
      if (proxy.isShut) socket.destroy();
      else proxy.forward(socket, connect({ host: "127.0.0.1", port: targetPort }));
    });
    return proxy;
  }

  cut(): void {
    this.isCut = true;
    for (const socket of this.sockets) socket.pause();
  }

  /** Requests arrive, answers do not. */
  swallowAnswers(): void {
    this.isMute = true;
  }

  /** Holds back the bytes sent on open connections until `release`, even if an end hangs up; refuses new connections. */
  hold(): void {
    this.isShut = true;
    for (const socket of this.sockets) this.held.set(socket, []);
  }

  /** Accepts new connections again. */
  letIn(): void {
    this.isShut = false;
  }

  release(): void {
    for (const chunks of this.held.values()) for (const { chunk, to } of chunks) if (!to.destroyed) to.write(chunk);
    this.held.clear();
  }

  heal(): void {
    this.isCut = false;
    this.isMute = false;
    this.drop();
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.drop();
    await closed;
  }

  private pass(chunk: Buffer, to: Socket): void {
    if (this.isCut) return;
    if (this.delayMs === 0) to.write(chunk);
    else setTimeout(() => to.destroyed || to.write(chunk), this.delayMs);
  }

  private drop(): void {
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
  }

  private forward(one: Socket, other: Socket): void {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      this.sockets.add(from);
      from.on("data", (chunk) => {
        const held = this.held.get(from);
        if (held !== undefined) held.push({ chunk, to });
        else if (!(this.isMute && from === other)) this.pass(chunk, to);
      });
      from.on("error", () => {});
      from.on("close", () => {
        this.sockets.delete(from);
        if (!this.isCut && !this.held.has(from)) to.destroy();
      });
      if (this.isCut) from.pause();
    }
  }
}
