// The ceiling for an HTTP server on Node: reads the body, stores nothing, answers 204. A GET is answered with a body that makes
// the answer as long as the first argument says.
// peers/bare-http.ts starts it.

import { createServer } from "node:http";

/** The head that Node writes by itself. */
const HEAD_BYTES = 140;
const page = Buffer.alloc(Math.max(0, Number(process.argv[2] ?? 0) - HEAD_BYTES), "x");

const server = createServer((request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, ["Content-Length", String(page.length)]);
    response.end(page);
    return;
  }
  request.on("data", () => {});
  request.on("end", () => {
    response.writeHead(204);
    response.end();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`ready http://127.0.0.1:${server.address().port}`));
process.on("SIGTERM", () => process.exit(0));
