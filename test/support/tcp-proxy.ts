/**
 * A wire that can be cut: forwards a port to another until told otherwise. `cut` swallows everything and closes nothing, as a
 * network does that has gone away; `heal` drops what was open, so that whoever is still there connects anew.
 */
import { connect, createServer, type Server, type Socket } from "node:net";

export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private isCut = false;

  private constructor(
    private readonly server: Server,
    readonly port: number,
  ) {}

  static async open(port: number, targetPort: number): Promise<TcpProxy> {
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", resolve);
    });
    const proxy = new TcpProxy(server, port);
    server.on("connection", (socket) => proxy.forward(socket, connect({ host: "127.0.0.1", port: targetPort })));
    return proxy;
  }

  cut(): void {
    this.isCut = true;
    for (const socket of this.sockets) socket.pause();
  }

  heal(): void {
    this.isCut = false;
    this.drop();
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    this.drop();
    await closed;
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
      from.on("data", (chunk) => void (this.isCut || to.write(chunk)));
      from.on("error", () => {});
      from.on("close", () => {
        this.sockets.delete(from);
        if (!this.isCut) to.destroy();
      });
      if (this.isCut) from.pause();
    }
  }
}
