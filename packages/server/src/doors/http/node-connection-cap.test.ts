/** How many connections the door takes, and what becomes of the others. */
import { get } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { HttpDoor } from "./http-door.ts";
import { connectionsWithin } from "./node-connection-cap.ts";

describe("the limit of open files", () => {
  it.each([
    ["is unknown", undefined, 100_000, false],
    ["has room for all", { limit: 1_048_576, inUse: 40 }, 100_000, false],
    ["is the usual one of a shell", { limit: 1_024, inUse: 40 }, 637, true],
    ["is low", { limit: 128, inUse: 40 }, 49, true],
    ["leaves room for one connection", { limit: 77, inUse: 40 }, 1, true],
  ])("that %s gives the number of connections, and a warning if they are few", (_name, files, wanted, isWarned) => {
    const warnings: object[] = [];
    expect(connectionsWithin(100_000, files, (_what, details) => warnings.push(details))).toBe(wanted);
    expect(warnings).toEqual(isWarned ? [{ openFiles: files!.limit, connections: wanted }] : []);
  });

  it("keeps a lower setting, without a warning", () => {
    const warn = () => expect.unreachable();
    expect(connectionsWithin(20, { limit: 128, inUse: 40 }, warn)).toBe(20);
  });

  it("that leaves no room refuses the start", () => {
    const files = { limit: 76, inUse: 40 };
    expect(() => connectionsWithin(100, files, () => {})).toThrow(/limit of open files is 76, and the server needs 80/);
  });
});

describe("a door with all its connections", () => {
  async function fullDoor() {
    const door = await HttpDoor.open({
      host: "127.0.0.1",
      port: 0,
      connections: 2,
      handle: () => ({ status: 200, headers: [], body: "here" }),
      report: (fault) => {
        throw fault;
      },
    });
    onTestFinished(() => {
      door.cut();
      return door.close();
    });
    const idle = [await connected(door.port), await connected(door.port)];
    await expect.poll(() => door.connections).toBe(2);
    return { door, idle };
  }

  it("refuses the next one with 503 before it asks, and serves again when one has gone", async () => {
    const { door, idle } = await fullDoor();
    const refused = await textFrom(door.port);
    expect(refused).toMatch(/^HTTP\/1\.1 503 /);
    expect(refused).toMatch(/\r\nRetry-After: 1\r\n/);
    expect(refused).toMatch(/\r\nConnection: close\r\n/);
    expect(JSON.parse(refused.split("\r\n\r\n")[1]!)).toMatchObject({ code: "overloaded", retryable: true });
    // It asks at once, as most clients do, and still gets the answer.
    expect(await statusFrom(door.port)).toBe(503);
    expect(door.connections).toBe(2);
    idle[0]!.destroy();
    await expect.poll(() => statusFrom(door.port)).toBe(200);
  });

  it("closes at once what comes while it refuses, so that refusals need few descriptors", async () => {
    const { door, idle } = await fullDoor();
    const answers = await Promise.all(Array.from({ length: 40 }, () => textFrom(door.port)));
    expect(answers.filter((text) => text.startsWith("HTTP/1.1 503 ")).length).toBeGreaterThanOrEqual(4);
    expect(answers.filter((text) => text !== "" && !text.startsWith("HTTP/1.1 503 "))).toEqual([]);
    expect(idle.map(({ destroyed }) => destroyed)).toEqual([false, false]);
  });
});

async function connected(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

/** What the door sends to a client that says nothing. */
function textFrom(port: number): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(port, "127.0.0.1");
    socket.on("data", (piece) => {
      text += piece;
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
  });
}

function statusFrom(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const request = get({ host: "127.0.0.1", port, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    request.on("error", () => resolve(undefined));
  });
}
