// Starts bare `node:http` that fans messages out to SSE readers from memory: the rate that Node allows without storage. The SSE
// scenarios compare with it.

import { startServer } from "../child.ts";

export const BARE_FAN_OUT = "bare node:http fan-out";

const PROGRAM = new URL("bare-fan-out-server.mjs", import.meta.url).pathname;

export function startBareFanOut() {
  return startServer(process.execPath, [PROGRAM]);
}
