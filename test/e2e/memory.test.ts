/**
 * How much memory clients can make a server hold: bodies that do not end, answers that are not read, requests that wait behind
 * them. Most tests open the HTTP door alone, with a handler of their own; one attacks a whole server process.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import type { HttpRequest, Reply } from "../../packages/server/src/core/http.ts";
import { HTTP_LIMITS } from "../../packages/server/src/doors/http/defaults.ts";
import { HttpDoor, type HttpDoorOptions } from "../../packages/server/src/doors/http/http-door.ts";
import { serveInProcess } from "../support/sluice-process.ts";
import { checkProblem } from "./problem.ts";
import { RawConnection } from "./raw-http.ts";
import { eventually, sleep, within } from "./server.ts";

const MIB = 1024 * 1024;
/** More than the buffers of a loopback connection take. */
const HUGE = Buffer.alloc(24 * MIB);

type Handle = (request: HttpRequest) => Promise<Reply> | Reply;

async function openDoor(handle: Handle, options: Partial<HttpDoorOptions> = {}): Promise<HttpDoor> {
  const door = await HttpDoor.open({ host: "127.0.0.1", port: 0, ...options, handle, report: () => {} });
  onTestFinished(async () => {
    door.cut();
    await door.close();
    await eventually(() => expect(door.memory.usedBytes, "bytes charged after the last connection").toBe(0));
  });
  return door;
}

/** A client that sends and does not read until it is told to. */
async function mute(port: number, text: string): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  socket.pause();
  socket.write(text);
  return socket;
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const post = (bytes: number) => `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`;

const page: Handle = () => ({ status: 200, headers: [], body: HUGE });
const bodyOf = async (request: HttpRequest): Promise<Reply> => {
  const body = await request.body(2 * MIB);
  return { status: 200, headers: [], body: body.kind };
};

describe("the memory for a body", () => {
  it("is charged as the body arrives, not as it is announced", async () => {
    const door = await openDoor(bodyOf);
    const client = await mute(door.port, post(MIB));
    client.write(Buffer.alloc(1_000));
    await eventually(() => expect(door.memory.usedBytes).toBe(1_000));
  });

  it.each([
    ["the client goes away in the middle of it", bodyOf, post(MIB) + "x".repeat(100_000), true],
    ["it has arrived and is answered", bodyOf, post(100_000) + "x".repeat(100_000), false],
    [
      "it is refused as too large",
      bodyOf,
      `${post(0).replace(/Content-Length.*\r\n\r\n/, "Transfer-Encoding: chunked\r\n\r\n")}300000\r\n${"x".repeat(3 * MIB)}`,
      false,
    ],
    [
      "its handler throws",
      async (request: HttpRequest) => {
        await request.body(MIB);
        throw new Error("a defect");
      },
      post(100_000) + "x".repeat(100_000),
      false,
    ],
  ])("is given back when %s", async (_, handle, text, leaves) => {
    const door = await openDoor(handle);
    const client = await mute(door.port, text);
    if (leaves) {
      await eventually(() => expect(door.memory.usedBytes).toBe(100_000));
      client.destroy();
    } else {
      client.resume();
      await once(client, "data");
    }
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
  });

  it("is not charged for what arrives after the answer", async () => {
    let begun = false;
    const door = await openDoor((request) => {
      void request.body(MIB);
      begun = true;
      return { status: 200, headers: [], body: "early" };
    });
    const client = await mute(door.port, post(200_000));
    await eventually(() => expect(begun).toBe(true));
    client.write(Buffer.alloc(100_000));
    client.resume();
    await once(client, "data");
    client.write(Buffer.alloc(100_000));
    const next = await RawConnection.open(door.port);
    next.send(get("/"));
    await next.answer();
    next.destroy();
    expect(door.memory.usedBytes).toBe(0);
  });

  it("that is not there refuses the body with 503 and the time to retry, and small ones are taken", async () => {
    const door = await openDoor(bodyOf, { memoryBytes: MIB });
    const holder = await mute(door.port, post(MIB) + "x".repeat(800_000));
    await eventually(() => expect(door.memory.usedBytes).toBe(800_000));
    const refused = await RawConnection.open(door.port);
    refused.send(post(400_000) + "x".repeat(400_000));
    const answer = await refused.answer("POST");
    expect(answer).not.toBe("closed");
    if (answer === "closed") return;
    expect(checkProblem(answer)).toMatchObject({ status: 503, code: "memory-full" });
    expect(answer.headers.get("retry-after")).toBe("1");
    const small = await RawConnection.open(door.port);
    small.send(`${post(5)}hello`);
    expect(await small.answer("POST")).toMatchObject({ status: 200 });
    small.destroy();
    expect(door.memory.usedBytes).toBe(800_000);
    holder.destroy();
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
  });
});

describe("an answer that is not read", () => {
  it("is charged until the client has taken it, and the requests behind it wait", async () => {
    let begun = 0;
    const door = await openDoor(() => {
      begun++;
      return page({} as HttpRequest);
    });
    const client = await mute(door.port, get("/").repeat(3));
    await eventually(() => expect(door.memory.usedBytes).toBeGreaterThan(HUGE.length));
    expect(begun).toBe(1);
    let taken = 0;
    client.on("data", (chunk) => {
      taken += chunk.length;
    });
    client.resume();
    await eventually(() => expect(taken).toBeGreaterThan(3 * HUGE.length));
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
    expect(begun).toBe(3);
  });

  it("is given back when the client goes away, with those that wait behind it", async () => {
    const door = await openDoor((request) => {
      // The second one is answered before the first one is taken.
      request.waits = true;
      return page(request);
    });
    const client = await mute(door.port, get("/").repeat(40));
    await eventually(() => expect(door.memory.usedBytes).toBeGreaterThan(HUGE.length));
    client.destroy();
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
  });

  it("is cut off when the client takes nothing of it for long", async () => {
    const door = await openDoor(page, { stallMs: 200 });
    await mute(door.port, get("/"));
    await eventually(() => expect(door.connections).toBe(1));
    await eventually(() => expect([door.connections, door.cuts.stalled]).toEqual([0, 1]));
  });

  it("is not cut off while its client takes some of it, nor a connection that waits for the server", async () => {
    let release: (reply: Reply) => void = () => {};
    const door = await openDoor(
      (request) =>
        request.path === "/page"
          ? page(request)
          : new Promise((resolve) => {
              release = resolve;
            }),
      { stallMs: 1_000 },
    );
    const client = await mute(door.port, get("/page") + get("/later"));
    let taken = 0;
    const sip = setInterval(() => {
      taken += client.read(MIB)?.length ?? client.read()?.length ?? 0;
    }, 20);
    onTestFinished(() => clearInterval(sip));
    await eventually(() => expect(taken).toBeGreaterThan(HUGE.length));
    // Longer than the limit, in which nothing moves: the client has everything, and its next answer is not there yet.
    await sleep(1_500);
    expect(door.connections).toBe(1);
    release({ status: 200, headers: [], body: "later" });
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
    expect(door.cuts).toEqual({ stalled: 0, memory: 0 });
  });

  it("leaves its time limit to no live answer behind it", async () => {
    const door = await openDoor(
      (request) =>
        request.path === "/page" ? page(request) : { status: 200, headers: [], live: (sink) => sink.write(HUGE) },
      { stallMs: 1_000 },
    );
    const client = await mute(door.port, get("/page") + get("/live"));
    let taken = 0;
    client.on("data", (chunk) => {
      taken += chunk.length;
      if (taken > HUGE.length + MIB) client.pause();
    });
    client.resume();
    await eventually(() => expect(client.isPaused()).toBe(true));
    await sleep(1_500);
    expect([door.connections, door.cuts.stalled]).toEqual([1, 0]);
  });

  it("for which there is no memory is 503, and small ones are answered", async () => {
    const door = await openDoor(
      (request) => (request.path === "/page" ? page(request) : { status: 200, headers: [], body: "small" }),
      { memoryBytes: 32 * MIB },
    );
    await mute(door.port, get("/page"));
    await eventually(() => expect(door.memory.usedBytes).toBeGreaterThan(HUGE.length));
    const other = await RawConnection.open(door.port);
    other.send(get("/page"));
    expect(checkProblem((await other.answer()) as never)).toMatchObject({ status: 503, code: "memory-full" });
    other.send(get("/small"));
    expect(await other.answer()).toMatchObject({ status: 200 });
    other.destroy();
  });

  it("to a live reader is charged too, unless other readers hold the same bytes", async () => {
    const door = await openDoor(
      (request) => ({
        status: 200,
        headers: [],
        live: (sink) => sink.write(HUGE, request.path === "/shared"),
      }),
      { memoryBytes: 64 * MIB },
    );
    await mute(door.port, get("/shared"));
    const own = await mute(door.port, get("/own"));
    await eventually(() => expect(door.memory.usedBytes).toBe(HUGE.length));
    own.resume();
    await eventually(() => expect(door.memory.usedBytes).toBe(0));
    await mute(door.port, get("/own"));
    await mute(door.port, get("/own"));
    await eventually(() => expect(door.memory.usedBytes).toBe(2 * HUGE.length));
    // The third finds no room, and is cut off.
    await mute(door.port, get("/own"));
    await eventually(() => expect(door.connections).toBe(4));
  });
});

describe("pipelined requests", () => {
  it("are answered in order, however many there are, and few of them are worked on at once", async () => {
    let open = 0;
    let most = 0;
    const door = await openDoor(
      async (request) => {
        open++;
        most = Math.max(most, open);
        await new Promise((resolve) => setImmediate(resolve));
        open--;
        return { status: 200, headers: [], body: request.search };
      },
      { openRequests: 8 },
    );
    const client = await RawConnection.open(door.port);
    const count = 1_000;
    for (let i = 0; i < count; i++) client.send(i % 20 === 0 ? get(`/?${i}`) : get(`/?${i}`).replace("GET", "PUT"));
    for (let i = 0; i < count; i++) {
      const answer = await client.answer();
      expect(answer === "closed" ? answer : answer.body.toString()).toBe(`${i}`);
    }
    expect(most).toBe(8);
    expect(door.memory.usedBytes).toBe(0);
    client.destroy();
  });

  it("are not read on while many wait, although the client takes answers meanwhile", async () => {
    const answer = Buffer.alloc(MIB);
    const door = await openDoor(() => ({ status: 200, headers: [], body: answer }));
    const request = get("/");
    const client = await mute(door.port, request.repeat(100_000));
    await eventually(() => expect(door.memory.usedBytes).toBeGreaterThan(MIB));
    let taken = 0;
    let most = 0;
    client.on("data", (chunk) => {
      taken += chunk.length;
      most = Math.max(most, door.memory.usedBytes);
    });
    client.resume();
    await eventually(() => expect(taken).toBeGreaterThan(40 * MIB));
    // What one read of a socket brings, and what was left of the one before.
    expect(most).toBeLessThan(2 * MIB + 2 * (65_536 / request.length) * HTTP_LIMITS.requestBytes);
    client.destroy();
  });

  it("begin behind a read that waits, so that a write can wake it", async () => {
    let wake: (reply: Reply) => void = () => {};
    const door = await openDoor((request) => {
      if (request.path !== "/wait") wake({ status: 200, headers: [], body: "woken" });
      else {
        request.waits = true;
        return new Promise((resolve) => {
          wake = resolve;
        });
      }
      return { status: 200, headers: [], body: "done" };
    });
    const client = await RawConnection.open(door.port);
    client.send(get("/wait") + get("/wake"));
    for (const body of ["woken", "done"]) expect(String(((await client.answer()) as never as Reply).body)).toBe(body);
    client.destroy();
  });
});

describe("a hundred clients that send large bodies without an end, or do not read", () => {
  it("make the server grow by less than 300 MB, and other clients are served meanwhile", async () => {
    const { url } = await serveInProcess(["--memory", "--log-level", "error"]);
    const port = Number(new URL(url).port);
    const binary = { "Content-Type": "application/octet-stream" };
    const big = `${url}/v1/stream/big`;
    await fetch(big, { method: "PUT", headers: binary });
    // A page of one message would be the message itself; a page of two is memory of its own.
    for (let i = 0; i < 2; i++) await fetch(big, { method: "POST", headers: binary, body: Buffer.alloc(MIB / 2) });
    await fetch(`${url}/v1/stream/small`, { method: "PUT", headers: binary });
    const resident = async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return Number(/^sluice_process_memory_bytes\{kind="resident"\} (\d+)$/m.exec(text)![1]);
    };
    const before = await resident();

    const pages = get("/v1/stream/big?offset=-1").repeat(200);
    const head = post(8 * MIB)
      .replace(" / ", " /v1/stream/big ")
      .replace("\r\n\r\n", "\r\nContent-Type: application/octet-stream\r\n\r\n");
    const part = Buffer.alloc(3 * MIB);
    const isSent = Array.from({ length: 50 }, async () => {
      await mute(port, pages);
      const body = await mute(port, head);
      // Refused bodies end with a reset.
      await new Promise<void>((resolve) => {
        body.once("close", resolve);
        body.write(part, () => resolve());
      });
    });
    const attack = within(50_000, "the attack", Promise.all(isSent));
    let isOver = false;
    void attack.finally(() => {
      isOver = true;
    });
    const answers = new Set<number>();
    let most = 0;
    let rounds = 0;
    while (!isOver || rounds < 10) {
      rounds++;
      answers.add((await fetch(`${url}/health`)).status);
      answers.add((await fetch(`${url}/v1/stream/small`, { method: "POST", headers: binary, body: "x" })).status);
      most = Math.max(most, await resident());
    }
    await attack;
    expect([...answers].sort()).toEqual([200, 204]);
    expect((most - before) / 1e6).toBeLessThan(300);
  }, 60_000);
});
