// Starts bare `node:http` that answers 204: the cost of a POST in Node without storage. The append scenarios compare with it.

import { startServer } from "../child.ts";

export const BARE_HTTP = "bare node:http";

const PROGRAM = new URL("bare-http-server.mjs", import.meta.url).pathname;

/** `answerBytes`: how long the answer to a GET is, head included. */
export function startBareHttp(answerBytes = 0) {
  return startServer(process.execPath, [PROGRAM, String(answerBytes)]);
}
