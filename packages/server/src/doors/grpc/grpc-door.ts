/**
 * The port for gRPC: accepts connections, and hands them to the gRPC server, which it loads for the first one. Compose opens it.
 *
 * Invariants: a server that no client of gRPC connects to never loads gRPC. A close waits for the calls in flight.
 */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import type { ConnectionRoom } from "../connection-room.ts";
import { listenFault } from "../http/listen-fault.ts";
import type { Secure } from "../tls/certificate.ts";
import type { GrpcParts } from "./caller.ts";
import { GRPC_PORT } from "./defaults.ts";
import type { CallParts } from "./grpc-call.ts";
import type { GrpcServer } from "./grpc-server.ts";
import type { GrpcTraffic } from "./observer.ts";

/** A port that is asked for must be free; `auto` takes 8085 if it is. Resolves with undefined if no port was opened. */
export async function openGrpc(
  asked: number | "off" | "auto" = "off",
  options: Omit<GrpcDoorOptions, "port">,
  warn: (what: string, details: object) => void,
): Promise<GrpcDoor | undefined> {
  if (asked === "off") return undefined;
  if (asked !== "auto") return GrpcDoor.open({ ...options, port: asked });
  return GrpcDoor.open({ ...options, port: GRPC_PORT }).catch((fault: Error) => {
    warn(`gRPC is off: ${fault.message}`, { todo: "choose another port with --grpc-port, or off" });
    return undefined;
  });
}

export interface GrpcDoorOptions extends GrpcParts, Omit<CallParts, "traffic" | "inflations"> {
  readonly host: string;
  readonly port: number;
  /** The connections that this door may have. */
  readonly room: ConnectionRoom;
  /** Secures connections where given; without it they are not encrypted. */
  readonly secure: Secure | undefined;
}

export class GrpcDoor {
  private readonly listener: Server;
  private readonly sockets = new Set<Socket>();
  private server: Promise<GrpcServer> | undefined;
  readonly traffic: GrpcTraffic = { receivedBytes: 0, sentBytes: 0 };
  /** Connections that were refused because there was no room for them. */
  refused = 0;

  private constructor(private readonly options: GrpcDoorOptions) {
    const take = (socket: Socket) => void this.serve(socket);
    const welcome = options.secure?.(take) ?? take;
    this.listener = createServer({ noDelay: true }, (socket) => {
      if (!options.room.enter(socket)) {
        this.refused++;
        socket.destroy();
        return;
      }
      this.sockets.add(socket);
      socket.once("close", () => this.sockets.delete(socket));
      welcome(socket);
    });
    // Without a listener, a failed accept would end the process.
    this.listener.on("error", () => {});
  }

  static async open(options: GrpcDoorOptions): Promise<GrpcDoor> {
    const door = new GrpcDoor(options);
    await new Promise<void>((resolve, reject) => {
      const refuse = (fault: Error) => reject(listenFault(fault, options.host, options.port));
      door.listener.once("error", refuse);
      door.listener.listen(options.port, options.host, () => {
        door.listener.off("error", refuse);
        resolve();
      });
    });
    return door;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  get connections(): number {
    return this.sockets.size;
  }

  private async serve(socket: Socket): Promise<void> {
    socket.on("error", () => {});
    try {
      this.server ??= import("./grpc-server.ts").then(
        ({ GrpcServer }) => new GrpcServer({ ...this.options, traffic: this.traffic }),
      );
      const server = await this.server;
      if (!socket.destroyed) server.take(socket);
    } catch (fault) {
      this.server = undefined;
      this.options.report("gRPC cannot be loaded; its connections are closed", fault);
      socket.destroy();
    }
  }

  /** Accepts no more connections; resolves when the calls in flight have ended. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.listener.close(() => resolve()));
    const server = await this.server?.catch(() => undefined);
    server?.close();
    await closed;
  }

  /** Ends the connections that are still open. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }
}
