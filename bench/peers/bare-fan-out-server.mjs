// The ceiling for SSE on Node: every POST goes to every reader from memory, and all messages of one turn of the event loop share
// one write per reader. It stores nothing, so no reader can resume. peers/bare-fan-out.ts starts it.

import { createServer } from "node:http";

const readers = new Set();
let waiting = [];

function fanOut() {
  const messages = waiting.map(({ message }) => message).join(",");
  for (const reader of readers) reader.write(`event: data\ndata: [${messages}]\n\nevent: control\ndata: {}\n\n`);
  for (const { response } of waiting) response.writeHead(204).end();
  waiting = [];
}

function accept(request, response) {
  let message = "";
  request.setEncoding("latin1");
  request.on("data", (text) => {
    message += text;
  });
  request.on("end", () => {
    if (waiting.length === 0) setImmediate(fanOut);
    waiting.push({ message, response });
  });
}

const server = createServer((request, response) => {
  if (request.method === "POST") accept(request, response);
  else if (request.method === "GET") {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).write("event: control\ndata: {}\n\n");
    readers.add(response);
    response.on("close", () => readers.delete(response));
  } else response.writeHead(201).end();
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(`ready http://127.0.0.1:${server.address().port}`));
process.on("SIGTERM", () => process.exit(0));
