// Reads a stream from its beginning to its tail the way a client does: follow Stream-Next-Offset until
// Stream-Up-To-Date. The read scenarios use it on every server; it counts messages and bytes and keeps nothing.

import type { HttpConnection } from "./http-connection.ts";
import { countMarkers } from "./message.ts";

const MAX_PAGES = 1_000_000;

export async function catchUp(
  connection: HttpConnection,
  path: string,
): Promise<{ messages: number; bytes: number; pages: number }> {
  let messages = 0;
  let bytes = 0;
  let offset = "-1";
  for (let pages = 1; pages <= MAX_PAGES; pages++) {
    const reply = await connection.send({
      method: "GET",
      path: `${path}?offset=${encodeURIComponent(offset)}`,
      onBody: (piece) => {
        messages += countMarkers(piece);
        bytes += piece.length;
      },
    });
    if (reply.status !== 200) throw new Error(`GET ${path} from ${offset} answered ${reply.status}`);
    const next = reply.header("Stream-Next-Offset");
    if (!next) throw new Error(`GET ${path} gave no Stream-Next-Offset`);
    if (reply.header("Stream-Up-To-Date") === "true") return { messages, bytes, pages };
    if (next === offset) throw new Error(`GET ${path} makes no progress at ${offset}`);
    offset = next;
  }
  throw new Error(`GET ${path} did not reach the tail in ${MAX_PAGES} pages`);
}
