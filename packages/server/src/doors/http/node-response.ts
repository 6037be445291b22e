/**
 * Writes a reply to a response of `node:http`. `NodeRequest` calls it.
 *
 * Invariants: what the network has not taken is charged to the memory budget, and a client for whose answer there is no room is
 * cut off.
 */
import type { Reply } from "../../core/http.ts";
import { type NodeRequest, onOver } from "./node-request.ts";
import { NodeSink } from "./node-sink.ts";
import { addSafeHeaders, asLatin1, contentLength } from "./response-headers.ts";

export function send(request: NodeRequest, reply: Reply): void {
  const { outgoing, method } = request;
  if (outgoing.destroyed) return;
  const { headers, body, live, status } = reply;
  addSafeHeaders(headers, reply);
  if (live) {
    request.line.live = outgoing;
    outgoing.writeHead(status, headers);
    outgoing.flushHeaders();
    live(new NodeSink(request));
    return;
  }
  if (body !== undefined && method !== "HEAD") request.line.shared.traffic.sentBytes += contentLength(reply, method)!;
  if (request.mustHangUp) sendAndHangUp(request, reply);
  else sendWhole(request, reply);
  if (outgoing.writableLength > 0) awaitClient(request);
}

function sendWhole({ outgoing, method }: NodeRequest, reply: Reply): void {
  const { headers, body, status } = reply;
  const length = contentLength(reply, method);
  if (length !== undefined) headers.push("Content-Length", String(length));
  outgoing.writeHead(status, headers);
  if (body === undefined || method === "HEAD") {
    outgoing.end();
    return;
  }
  // `node:http` sends a head and a string in one write, a head and bytes in two.
  const small = asLatin1(body);
  if (small === undefined) outgoing.end(body);
  else outgoing.end(small, "latin1");
}

/**
 * Sends the response with `Connection: close`, and leaves the client time to read it before the connection is
 * destroyed.
 */
function sendAndHangUp({ method, incoming, outgoing, line }: NodeRequest, reply: Reply): void {
  outgoing.shouldKeepAlive = false;
  const length = contentLength(reply, method);
  if (length !== undefined) reply.headers.push("Content-Length", String(length));
  outgoing.writeHead(reply.status, [...reply.headers, "Connection", "close"]);
  const { socket } = incoming;
  const { lingerMs } = line.shared.limits;
  outgoing.end(reply.body, () => setTimeout(() => socket.destroy(), lingerMs).unref());
}

/** The network has not taken the whole answer. An answer that is as small as its request is not charged to the budget. */
function awaitClient(request: NodeRequest): void {
  const { line, outgoing } = request;
  const bytes = outgoing.writableLength;
  line.limitSilence();
  if (bytes <= line.shared.limits.requestBytes) return;
  if (line.requests.hold(bytes)) onOver(request, () => line.requests.drained(bytes));
  else line.cut();
}
