// The protocol authors' Node server on its file-backed store, in a process of its own. peers/durable-streams.ts starts it. It has
// Sluice's arguments and ready line, so that it can replace Sluice (`--server`) to test the harness itself.

import { parseArgs } from "node:util";
import { DurableStreamTestServer } from "@durable-streams/server";

const { values } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: { port: { type: "string", default: "0" }, data: { type: "string" } },
});
if (!values.data) throw new Error("--data is required: without it the server would keep everything in memory");

const server = new DurableStreamTestServer({ port: Number(values.port), host: "127.0.0.1", dataDir: values.data });
console.log(`ready ${await server.start()}`);
process.on("SIGTERM", async () => {
  await server.stop();
  process.exit(0);
});
