// Starts bare `ws` fed by a POST that makes one O_DSYNC write: what durable push costs on Node without offsets and catch-up. The
// Live scenarios compare with it.

import { join } from "node:path";
import { startServer } from "../child.ts";

export const BARE_WS = "bare ws with one O_DSYNC write";

const PROGRAM = new URL("bare-ws-server.mjs", import.meta.url).pathname;

export function startBareWs(directory: string) {
  return startServer(process.execPath, [PROGRAM, join(directory, "messages")]);
}
