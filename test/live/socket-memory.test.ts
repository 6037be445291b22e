/** What a WebSocket can make a server hold: memory when its client does not read, and a connection. Through the HTTP door alone. */
import { once } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import type { HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import { type Socket, textFrame } from "../../packages/server/src/core/socket.ts";
import { HttpDoor, type HttpDoorOptions } from "../../packages/server/src/doors/http/http-door.ts";
import { eventually, within } from "../e2e/server.ts";

const MIB = 1024 * 1024;
/** More than the buffers of a loopback connection take. */
const HUGE = textFrame([Buffer.alloc(24 * MIB)]);

/** A WebSocket whose client does not read, with the server's end of it and the messages that reached it. */
async function muteWebSocket(options: Partial<HttpDoorOptions> = {}) {
  let socket: Socket | undefined;
  const texts: string[] = [];
  const opened = (given: Socket) => {
    socket = given;
    given.onText(async (text) => void texts.push(text));
  };
  const handle = ({ isUpgrade }: HttpRequest): Reply =>
    isUpgrade ? { status: 101, headers: [], socket: opened } : { status: 204, headers: [] };
  const door = await HttpDoor.open({ host: "127.0.0.1", port: 0, ...options, handle, report: () => {} });
  onTestFinished(() => door.close());
  const client = new WebSocket(`ws://127.0.0.1:${door.port}`);
  client.on("error", () => {});
  onTestFinished(() => client.terminate());
  await once(client, "open");
  client.pause();
  return { door, client, socket: socket!, texts };
}

describe("the memory for a WebSocket", () => {
  it("is charged for bytes that are its own and that its client does not take, until it goes", async () => {
    const { door, client, socket } = await muteWebSocket();
    socket.write(HUGE, true);
    expect(door.memory.usedBytes).toBe(0);
    const frame = textFrame([Buffer.alloc(1_000)]);
    for (let i = 0; i < 3; i++) socket.write(frame);
    expect(door.memory.usedBytes).toBe(3 * frame.length);
    client.terminate();
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
  });

  it("is limited: the connection that finds no room is cut", async () => {
    const { door, socket } = await muteWebSocket({ memoryBytes: MIB });
    const gone = new Promise<void>((resolve) => socket.onGone(resolve));
    socket.write(HUGE, true);
    socket.write(textFrame([Buffer.alloc(2 * MIB)]));
    await within(10_000, "the end of the connection", gone);
    expect(door.connections).toBe(0);
  });

  it("is not filled by a client that pings and does not read", async () => {
    const { client, socket, texts } = await muteWebSocket();
    socket.write(HUGE, true);
    const before = socket.buffered;
    for (let i = 0; i < 2_000; i++) client.ping(Buffer.alloc(125));
    client.send("behind them");
    await eventually(() => expect(texts).toEqual(["behind them"]));
    expect(socket.buffered).toBeLessThanOrEqual(before);
  });
});

it("a WebSocket is one of the connections that the server takes", async () => {
  const { door, client } = await muteWebSocket({ connections: 1 });
  const statusOf = async () => (await fetch(`http://127.0.0.1:${door.port}`)).status;
  expect(await statusOf()).toBe(503);
  client.terminate();
  await eventually(async () => expect(await statusOf()).not.toBe(503));
});
