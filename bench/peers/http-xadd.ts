// Starts `node:http` that does one XADD per request on a Redis Cluster.
// The scenarios on Redis compare with it: the same cluster, the same durability, one message per command.

import { startServer } from "../child.ts";

export const HTTP_XADD = "node:http with one XADD per request";

const PROGRAM = new URL("http-xadd-server.mjs", import.meta.url).pathname;

export function startHttpXadd(urls: readonly string[]) {
  return startServer(process.execPath, [PROGRAM, ...urls]);
}
