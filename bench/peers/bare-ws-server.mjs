// The least that pushes durable messages to WebSockets on Node: a POST makes one O_DSYNC write, then every client gets the message
// by `ws`. It knows no offsets, so no client can catch up. peers/bare-ws.ts starts it.

import { constants, open, write } from "node:fs";
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

const { O_WRONLY, O_CREAT, O_APPEND, O_DSYNC } = constants;
const clients = new WebSocketServer({ noServer: true, perMessageDeflate: false });

function accept(fd, request, response) {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const message = Buffer.concat(pieces);
    write(fd, message, (error) => {
      if (error) throw error;
      for (const client of clients.clients) client.send(message, { binary: false });
      response.writeHead(204).end();
    });
  });
}

open(process.argv[2], O_WRONLY | O_CREAT | O_APPEND | O_DSYNC, (error, fd) => {
  if (error) throw error;
  const server = createServer((request, response) => {
    if (request.method === "POST") accept(fd, request, response);
    else response.writeHead(201).end();
  });
  server.on("upgrade", (request, socket, head) => {
    // A client counts as connected when something has come.
    clients.handleUpgrade(request, socket, head, (client) => {
      clients.emit("connection", client);
      client.send("{}");
    });
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1", () => console.log(`ready http://127.0.0.1:${server.address().port}`));
});
process.on("SIGTERM", () => process.exit(0));
