import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type LaneSocket, laneSocket } from "./lane-socket.ts";

let server: Server;
const inputs: LaneSocket[] = [];
const clients: Socket[] = [];

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true }, (accepted) => inputs.push(laneSocket(accepted)));
  await once(server.listen(0, "127.0.0.1"), "listening");
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  for (const { socket } of inputs.splice(0)) socket.destroy();
  // Resolves only if the server knows that every connection is gone.
  await new Promise((resolve) => server.close(resolve));
});

async function open(): Promise<{ client: Socket; input: LaneSocket }> {
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  clients.push(client);
  const before = inputs.length;
  await expect.poll(() => inputs.length).toBe(before + 1);
  return { client, input: inputs[before]! };
}

/** What arrives, each read with the memory that it was lent in. */
function reads(input: LaneSocket): { readonly text: string; readonly memory: ArrayBufferLike }[] {
  const seen: { text: string; memory: ArrayBufferLike }[] = [];
  input.begin((bytes) => seen.push({ text: bytes.toString(), memory: bytes.buffer }));
  return seen;
}

test("all connections are read into the same memory, which this version of Node allows", async () => {
  const one = await open();
  const other = await open();
  const seen = [reads(one.input), reads(other.input)];
  one.client.write("first");
  other.client.write("second");
  await expect.poll(() => seen.map((list) => list.map(({ text }) => text))).toEqual([["first"], ["second"]]);
  expect(seen[1]![0]!.memory).toBe(seen[0]![0]!.memory);
});

test("after its end in the lane it is as any other socket, and what others get is their own", async () => {
  const { client, input } = await open();
  const seen = reads(input);
  client.write("for the lane");
  await expect.poll(() => seen.length).toBe(1);
  input.end();
  const later: Buffer[] = [];
  input.socket.on("data", (bytes) => later.push(bytes));
  client.write("for others");
  await expect.poll(() => later.length).toBe(1);
  client.write("and more");
  await expect.poll(() => later.map(String)).toEqual(["for others", "and more"]);
  expect(later[0]!.buffer).not.toBe(seen[0]!.memory);
});

test("a paused socket is not read", async () => {
  const { client, input } = await open();
  const seen = reads(input);
  input.socket.pause();
  client.write("patience");
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(seen).toEqual([]);
  input.socket.resume();
  await expect.poll(() => seen.map(({ text }) => text)).toEqual(["patience"]);
});

test("the end of the input and the end of the connection arrive", async () => {
  const { client, input } = await open();
  reads(input);
  const ended = once(input.socket, "end");
  const closed = once(input.socket, "close");
  const answered = once(client, "data");
  client.end("last words");
  await ended;
  input.socket.end("answer");
  expect(String(await answered)).toBe("answer");
  await closed;
});

test("a socket of another kind, such as one with TLS, is read as it is", async () => {
  class Other extends Socket {}
  const other = new Other();
  clients.push(other);
  other.connect((server.address() as AddressInfo).port, "127.0.0.1");
  await expect.poll(() => inputs.length).toBe(1);
  const input = laneSocket(other);
  expect(input.socket).toBe(other);
  const seen = reads(input);
  inputs[0]!.socket.write("as ever");
  await expect.poll(() => seen.map(({ text }) => text)).toEqual(["as ever"]);
  input.end();
  expect(other.listenerCount("data")).toBe(0);
});
