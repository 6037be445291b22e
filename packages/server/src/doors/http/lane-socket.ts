/**
 * The socket of a connection in the lane. All of them are read into one buffer, because Node otherwise allocates 64 KiB for every
 * read and gives most of it back. With the garbage collection that follows, that is a tenth of the time of an append, measured.
 *
 * Node offers this (`onread`) to sockets that a program opens itself, and accepted ones have no such option. So the lane makes its
 * own socket around the handle of the accepted one. Handles are not part of Node's documented interface: where one is not as
 * expected, the lane reads the accepted socket as it is.
 *
 * Invariants: what `take` gets is valid until it returns, and no longer. Without `take` the socket is as any other.
 */
import { Socket } from "node:net";

type Take = (bytes: Buffer) => void;

/** The most bytes of one read, which are as many as Node reads otherwise. */
const READ_BYTES = 64 * 1_024;
const BUFFER = Buffer.allocUnsafeSlow(READ_BYTES);

export interface LaneSocket {
  readonly socket: Socket;
  /** Has `take` called with the bytes that arrive, from now on. */
  begin(take: Take): void;
  /** From now on the bytes that arrive are for those who listen to the socket. */
  end(): void;
}

export function laneSocket(accepted: Socket): LaneSocket {
  const handle = takeHandle(accepted);
  return handle === undefined ? listening(accepted) : reading(accepted, handle);
}

/** Undefined for a socket that must stay as it is, such as one with TLS. */
function takeHandle(accepted: Socket): object | undefined {
  const inner = accepted as unknown as { _handle?: { useUserBuffer?: unknown } | null };
  const handle = inner._handle;
  if (accepted.constructor !== Socket || typeof handle?.useUserBuffer !== "function") return undefined;
  inner._handle = null;
  return handle;
}

function reading(accepted: Socket, handle: object): LaneSocket {
  let take: Take | undefined;
  const callback = (count: number): boolean => {
    const bytes = received(count);
    if (take === undefined) return socket.push(Buffer.from(bytes));
    take(bytes);
    return true;
  };
  const options = { handle, allowHalfOpen: accepted.allowHalfOpen, onread: { buffer: BUFFER, callback } };
  const socket = new Socket(options as object);
  // The server counts its connections by the sockets that it has accepted.
  socket.once("close", () => accepted.destroy());
  return {
    socket,
    begin: (taking) => (take = taking),
    end: () => (take = undefined),
  };
}

let lately = BUFFER;

/** The bytes of a read. Most requests of a client are as long as the one before, and need no new view. */
function received(count: number): Buffer {
  if (lately.length !== count) lately = BUFFER.subarray(0, count);
  return lately;
}

function listening(socket: Socket): LaneSocket {
  let take: Take | undefined;
  return {
    socket,
    begin(taking) {
      take = taking;
      socket.on("data", taking);
    },
    end() {
      if (take !== undefined) socket.off("data", take);
    },
  };
}
