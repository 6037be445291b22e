// Starts bare `node:http` that answers 204: the cost of a POST in Node without storage. The append scenarios compare with it.

import { startServer } from "../child.ts";

export const BARE_HTTP = "bare node:http";

const PROGRAM = new URL("bare-http-server.mjs", import.meta.url).pathname;

export function startBareHttp() {
  return startServer(process.execPath, [PROGRAM]);
}
