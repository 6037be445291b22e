// Starts @durable-streams/server on disk (its file-backed store), in a process of its own. The append, read and SSE scenarios
// compare with it. It runs on its default settings; the load never asks for compression, so that setting does not matter.

import { createRequire } from "node:module";
import { startServer } from "../child.ts";

export const DURABLE_STREAMS = "@durable-streams/server";

const PROGRAM = new URL("durable-streams-server.mjs", import.meta.url).pathname;

export function startDurableStreams(dataDirectory: string) {
  return startServer(process.execPath, [PROGRAM, "serve", "--port", "0", "--data", dataDirectory]);
}

export function durableStreamsVersion(): string {
  const { version } = createRequire(import.meta.url)("@durable-streams/server/package.json") as { version: string };
  return version;
}
