/**
 * Server-sent events as the framing of a connection: the headers of the response, and comments for the connection's own messages.
 * The routes of streams and channels use it.
 *
 * Invariants: clients ignore comments, so the connection's messages belong to no event protocol.
 */
import { header } from "@sluice/protocol";
import { utf8 } from "./bytes.ts";
import type { Connection, Framing } from "./connection.ts";
import type { FollowEnd } from "./follower.ts";
import type { Headers } from "./http.ts";

const HEARTBEAT = utf8(":\n\n");

export const SSE: Framing = {
  beat: (sink) => sink.write(HEARTBEAT),
  farewell: (sink, why) => sink.write(utf8(`: ended: ${why}\n\n`)),
};

export function sseHeaders(): Headers {
  return [header.contentType, "text/event-stream", header.cacheControl, "no-cache, no-store, no-transform"];
}

/** Ends the connection when its only follower ends. */
export function endWith(connection: Connection): (why: FollowEnd) => void {
  return (why) => connection.end(why === "fault" ? "fault" : "stream", why);
}
