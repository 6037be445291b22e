// The ceiling for an HTTP server on Node: reads the body, stores nothing, answers 204.
// peers/bare-http.ts starts it.

import { createServer } from "node:http";

const server = createServer((request, response) => {
  request.on("data", () => {});
  request.on("end", () => {
    response.writeHead(204);
    response.end();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`ready http://127.0.0.1:${server.address().port}`));
process.on("SIGTERM", () => process.exit(0));
