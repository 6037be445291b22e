/**
 * Server-sent events as the framing of a connection: the headers of the response, and the comments that carry what the connection
 * itself says. Clients must ignore comments, so neither is part of any event protocol. The routes of streams and channels use it.
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
  return [header.contentType, "text/event-stream", header.cacheControl, "no-cache, no-transform"];
}

/** What ends the only follower of a connection ends the connection. */
export function endWith(connection: Connection): (why: FollowEnd) => void {
  return (why) => connection.end(why === "fault" ? "fault" : "stream", why);
}
