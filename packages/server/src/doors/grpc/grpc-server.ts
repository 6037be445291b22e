/**
 * gRPC over HTTP/2 of Node: connections, and the calls on them. `grpc-door.ts` loads this file with its first connection, because
 * loading takes longer than a start of the rest of the server.
 *
 * Invariants: calls and metadata of a connection are bounded. A connection that shows no sign of life, or has no calls for long, is
 * closed. A close waits for the calls in flight.
 */
import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { Refusal } from "../../core/refusal.ts";
import type { GrpcParts, MethodParts, Service } from "./caller.ts";
import { Definitions } from "./definitions.ts";
import { type CallParts, GrpcCall, type Implementation } from "./grpc-call.ts";
import { GrpcSession } from "./grpc-session.ts";
import { iam } from "./iam.ts";
import { Inflations } from "./inflation.ts";
import { publisher } from "./publisher.ts";
import { schemaService } from "./schemas.ts";
import { status } from "./status.ts";
import { subscriber } from "./subscriber.ts";

const SERVICES: Readonly<Record<string, (parts: MethodParts) => Service>> = {
  "google.pubsub.v1.Publisher": publisher,
  "google.pubsub.v1.Subscriber": subscriber,
  "google.pubsub.v1.SchemaService": schemaService,
  "google.iam.v1.IAMPolicy": iam,
};
const LARGE_REQUESTS = "Publisher.Publish";
const WAITING = "Subscriber.Pull";
/** What nghttp2 holds for a connection beyond its calls, in its unit. */
const SESSION_MEGABYTES = 64;
const MAX_HEADERS = 100;

export class GrpcServer {
  private readonly server: Http2Server;
  private readonly sessions = new Map<ServerHttp2Session, GrpcSession>();
  private readonly methods = new Map<string, Implementation>();
  /** The socket of the session that begins. */
  private taken: Socket | undefined;
  private isClosing = false;

  private readonly parts: CallParts;

  constructor(parts: GrpcParts & Omit<CallParts, "inflations">) {
    const { limits } = parts;
    this.parts = { ...parts, inflations: new Inflations() };
    const definitions = new Definitions();
    for (const [name, serviceOf] of Object.entries(SERVICES)) {
      const service = serviceOf({ ...parts, definitions });
      for (const method of definitions.methods(name)) {
        const maxBytes = method.name === LARGE_REQUESTS ? limits.requestBytes : limits.smallRequestBytes;
        const open = service[method.name.slice(method.name.indexOf(".") + 1)]!;
        this.methods.set(method.path, { ...method, maxBytes, waits: method.name === WAITING, open });
      }
    }
    this.server = createServer({
      maxSessionMemory: SESSION_MEGABYTES,
      maxHeaderListPairs: MAX_HEADERS,
      settings: { maxConcurrentStreams: limits.calls, maxHeaderListSize: limits.headerBytes },
    });
    this.server.on("session", (session) => this.welcome(session));
    this.server.on("stream", (stream, headers) => this.begin(stream, headers));
    this.server.on("sessionError", () => {});
  }

  take(socket: Socket): void {
    // Node gives no access to the socket of a session, and begins the session before `emit` returns.
    this.taken = socket;
    this.server.emit("connection", socket);
  }

  /** Lets the calls in flight end, and takes no more. */
  close(): void {
    this.isClosing = true;
    for (const session of this.sessions.keys()) session.close();
  }

  private begin(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    // A client may have reset it already.
    if (stream.destroyed) return;
    const type = headers["content-type"];
    if (headers[":method"] !== "POST" || !type?.startsWith("application/grpc")) {
      stream.on("error", () => {});
      stream.respond({ ":status": constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE }, { endStream: true });
      stream.close(constants.NGHTTP2_NO_ERROR);
      return;
    }
    const path = headers[":path"] ?? "";
    const method = this.methods.get(path);
    const call = new GrpcCall(stream, headers, method ?? UNKNOWN, this.parts);
    this.sessions.get(stream.session as ServerHttp2Session)?.enter(stream);
    call.begin();
    if (method === undefined) call.fail(undefined);
    else if (sizeOf(headers) > this.parts.limits.headerBytes) {
      call.fail(new Refusal("bad-header", `the metadata has more than ${this.parts.limits.headerBytes} bytes`));
    }
  }

  private welcome(session: ServerHttp2Session): void {
    this.sessions.set(session, new GrpcSession(session, this.taken!, this.parts));
    session.on("error", () => {});
    session.once("close", () => this.sessions.delete(session));
    // Its connection was accepted before the close.
    if (this.isClosing) session.close();
  }
}

/** Node only announces the limit. */
function sizeOf(headers: IncomingHttpHeaders): number {
  let size = 0;
  for (const name in headers) size += name.length + (headers[name]?.length ?? 0);
  return size;
}

/** What answers calls of methods that the server does not have. */
const UNKNOWN: Implementation = {
  name: "other",
  path: "",
  isStream: false,
  waits: false,
  maxBytes: 0,
  decode: () => ({}),
  encode: () => Buffer.alloc(0),
  open: () => ({
    take: async () => undefined,
    failure: () => ({ code: status.UNIMPLEMENTED, details: "The server does not have this method." }),
  }),
};
