// Starts bare `node:http` answering 204: what a POST costs in Node when nothing is stored.
// The append scenarios compare with it.

import { startServer } from "../child.ts";

export const BARE_HTTP = "bare node:http";

const PROGRAM = new URL("bare-http-server.mjs", import.meta.url).pathname;

export function startBareHttp() {
  return startServer(process.execPath, [PROGRAM]);
}
