// A minimal hand-written server on a Redis Cluster: reads the body, adds it to a stream, answers 204. peers/http-xadd.ts starts
// it, with the nodes of the cluster as arguments.

import { createServer } from "node:http";
import { Cluster } from "ioredis";

const nodes = process.argv.slice(2).map((url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) }));
const cluster = new Cluster(nodes);

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    cluster.xadd(`{${request.url}}`, "*", "m", Buffer.concat(chunks)).then(
      () => response.writeHead(204).end(),
      () => response.writeHead(503).end(),
    );
  });
});
server.keepAliveTimeout = 60_000;
cluster.once("ready", () => {
  server.listen(0, "127.0.0.1", () => console.log(`ready http://127.0.0.1:${server.address().port}`));
});
process.on("SIGTERM", () => process.exit(0));
