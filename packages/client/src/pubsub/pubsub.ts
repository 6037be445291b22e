/**
 * The library's entrance over the wire: topics and subscriptions of a server, for Node. Programs make one per server and project.
 *
 * Invariants: a wrong option is refused with a TypeError before any request. The first call opens the connection; `close` ends it.
 */
import { type RetryOptions, retryPolicy } from "../backoff.ts";
import { Connection, type HeaderSource } from "../connection.ts";
import { projectOption, socketOption, tokenOption, urlOption } from "../options.ts";
import type { SocketClass } from "../text-socket.ts";
import type { TokenSource } from "../token.ts";
import { MessageQueue } from "./message-queue.ts";
import { nodeWorld } from "./node-world.ts";
import type { QueueWorld } from "./port.ts";
import { PubSubBase } from "./pubsub-base.ts";
import { WirePort } from "./wire-port.ts";

export interface PubSubOptions {
  /** The address of the server, like `https://streams.example.com`. */
  readonly url: string | URL;
  /** A token, or a function that gets one: for the first connection, and again before it expires or when it is refused. */
  readonly token?: TokenSource | undefined;
  /** The project that names belong to; `default` by default. */
  readonly projectId?: string | undefined;
  /** Headers for every request and connection. */
  readonly headers?: HeaderSource | undefined;
  readonly fetch?: typeof fetch | undefined;
  /** How long calls and acknowledgements are repeated while the server does not answer; 30 s by default. */
  readonly retries?: RetryOptions | undefined;
  /** A WebSocket class that takes headers, such as that of the package `ws`. Node has one from version 22 on. */
  readonly WebSocket?: SocketClass | undefined;
}

/** How long the server may take to answer a publish. */
const TIMEOUT_MS = 60_000;

export class PubSub extends PubSubBase {
  /** Only tests pass a world. */
  constructor(options: PubSubOptions, world: QueueWorld = nodeWorld) {
    const { url, token, projectId, headers, retries, WebSocket } = options;
    const Socket = socketOption(WebSocket);
    if (Socket === undefined)
      throw new TypeError("this Node has no WebSocket; pass that of the package ws as WebSocket");
    const connection = new Connection({
      url: urlOption(url),
      project: projectOption(projectId),
      token: tokenOption(token),
      headers,
      query: undefined,
      fetch: options.fetch ?? globalThis.fetch,
      timeoutMs: TIMEOUT_MS,
      retries: retryPolicy(retries ?? {}),
    });
    super(new MessageQueue(world, () => new WirePort(connection, Socket)));
  }
}
