/**
 * The gRPC server itself: Google's services over grpc-js. `grpc-door.ts` loads this file with its first connection, because loading
 * takes longer than a start of the rest of the server.
 *
 * Invariants: requests, calls of a connection and silent connections are bounded.
 */
import type { Socket } from "node:net";
import { type ConnectionInjector, Server, ServerCredentials } from "@grpc/grpc-js";
import { MemoryBudget } from "../memory-budget.ts";
import type { GrpcParts } from "./caller.ts";
import { Definitions } from "./definitions.ts";
import { iam } from "./iam.ts";
import { publisher } from "./publisher.ts";
import { schemaService } from "./schemas.ts";
import { subscriber } from "./subscriber.ts";

/** A publish of at most this many bytes is small. */
const SMALL_BYTES = 64 * 1_024;

export class GrpcServer {
  private constructor(
    private readonly server: Server,
    private readonly injector: ConnectionInjector,
  ) {}

  static async open(given: GrpcParts): Promise<GrpcServer> {
    const { limits } = given;
    const definitions = Definitions.load();
    const memory = new MemoryBudget({ memoryBytes: limits.publishingBytes, smallBytes: SMALL_BYTES });
    const parts = { ...given, definitions, memory };
    const server = new Server({
      "grpc.max_receive_message_length": limits.requestBytes,
      "grpc.max_send_message_length": -1,
      "grpc.max_concurrent_streams": limits.calls,
      "grpc.keepalive_time_ms": limits.pingMs,
      "grpc.keepalive_timeout_ms": limits.pongMs,
      "grpc.enable_channelz": 0,
    });
    server.addService(definitions.service("google.pubsub.v1.Publisher"), publisher(parts));
    server.addService(definitions.service("google.pubsub.v1.Subscriber"), subscriber(parts));
    server.addService(definitions.service("google.pubsub.v1.SchemaService"), schemaService(parts));
    server.addService(definitions.service("google.iam.v1.IAMPolicy"), iam(parts));
    return new GrpcServer(server, server.createConnectionInjector(ServerCredentials.createInsecure()));
  }

  take(socket: Socket): void {
    this.injector.injectConnection(socket);
  }

  /** Resolves when the calls in flight have ended. */
  close(): Promise<void> {
    return new Promise((resolve) => this.server.tryShutdown(() => resolve()));
  }

  cut(): void {
    this.server.forceShutdown();
  }
}
