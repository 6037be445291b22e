/**
 * WebSockets to the server with the client's token and headers. Members of groups and wires of a `PubSub` open them.
 *
 * Invariants: a WebSocket does not tell why it could not be opened, so a plain request to its address asks.
 */
import type { Call, Connection } from "./connection.ts";
import { hasCode, SluiceError } from "./error.ts";
import type { SocketClass, SocketLike } from "./text-socket.ts";

interface Place {
  readonly path: string;
  readonly query?: Call["query"];
}

/**
 * Resolves with the function that opens the WebSocket, because its events must be listened to at once. Rejects with a SluiceError, or
 * with the reason of the signal.
 */
export async function socketTo(
  connection: Connection,
  { path, query, Socket }: Place & { readonly Socket: SocketClass | undefined },
  signal: AbortSignal,
): Promise<() => SocketLike> {
  const headers = await connection.socketHeaders(signal);
  signal.throwIfAborted();
  // Node's WebSocket and that of `ws` take headers; a page's takes none, and has a cookie instead.
  const Class = Socket as new (url: string, options?: object) => SocketLike;
  const url = connection.socketUrl(path, query);
  return () => {
    try {
      return Object.keys(headers).length > 0 ? new Class(url, { headers }) : new Class(url);
    } catch (cause) {
      const hint = "a page sends no headers with a WebSocket, so let a cookie authenticate it";
      throw new SluiceError("unreachable", `the WebSocket could not be made: ${cause}; ${hint}`, { cause });
    }
  };
}

/** Why a WebSocket could not be used. */
export async function reasonFor(
  connection: Connection,
  { path, query }: Place,
  error: SluiceError,
  signal: AbortSignal,
): Promise<SluiceError> {
  if (error.code !== "unreachable" || !error.retryable) return error;
  try {
    await connection.once({ method: "GET", path, query, signal });
  } catch (refusal) {
    // The server would have opened the WebSocket: the request only misses the upgrade.
    if (!hasCode(refusal, "bad-request")) return refusal as SluiceError;
  }
  return error;
}
