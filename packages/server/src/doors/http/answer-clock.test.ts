import { expect, onTestFinished, test } from "vitest";
import { eventually, sleep } from "../../../../../test/support/eventually.ts";
import { Deadlines } from "../../core/deadlines.ts";
import type { HttpRequest, Reply } from "../../core/http.ts";
import { realWorld } from "../../real-world.ts";
import { HttpDoor } from "./http-door.ts";

const DEADLINE_MS = 100;

async function opened(handle: (request: HttpRequest) => Promise<Reply>): Promise<string> {
  const reported: unknown[] = [];
  const door = await HttpDoor.open({
    host: "127.0.0.1",
    port: 0,
    handle,
    deadlines: new Deadlines(realWorld(), DEADLINE_MS),
    report: (fault) => reported.push(fault),
  });
  onTestFinished(async () => {
    await door.close();
    expect(reported).toEqual([]);
  });
  return `http://127.0.0.1:${door.port}/`;
}

/** A handler that gets on when it is told to. */
function held(reply: Reply) {
  let go = () => {};
  const gone = new Promise<void>((resolve) => {
    go = resolve;
  });
  return { go: () => go(), handle: () => gone.then(() => reply) };
}

test("a request that is not answered in time is refused, and later results of its handler are discarded", async () => {
  const { go, handle } = held({ status: 200, headers: [], body: "late" });
  const url = await opened(handle);
  const response = await fetch(url);
  expect(response.status).toBe(503);
  expect(response.headers.get("retry-after")).toBe("1");
  expect(await response.json()).toMatchObject({ code: "unavailable", retryable: true });
  go();
  await sleep(10);
  expect((await fetch(url)).status).toBe(200);
});

test("a handler that fails too late is not answered a second time", async () => {
  let fail = (_: Error) => {};
  const url = await opened((request) =>
    request.path === "/fine"
      ? Promise.resolve({ status: 204, headers: [] })
      : new Promise((_, reject) => {
          fail = reject;
        }),
  );
  expect((await fetch(url)).status).toBe(503);
  const { Refusal } = await import("../../core/refusal.ts");
  fail(new Refusal("bad-query", "too late"));
  expect((await fetch(`${url}fine`)).status).toBe(204);
});

test("a live answer that comes too late learns that its client has gone", async () => {
  let began = 0;
  let gone = 0;
  const live: Reply["live"] = (sink) => {
    began++;
    sink.write(new Uint8Array(1));
    sink.onGone(() => gone++);
  };
  const { go, handle } = held({ status: 200, headers: [], live });
  const url = await opened(handle);
  expect((await fetch(url)).status).toBe(503);
  go();
  await eventually(() => expect([began, gone]).toEqual([1, 1]));
});

test("a task that waits for a client to leave runs at once after the request was refused", async () => {
  let gone = 0;
  const refused = new Promise<void>((resolve) => setTimeout(resolve, 3 * DEADLINE_MS));
  const url = await opened(async (request) => {
    await refused;
    request.onGone(() => gone++);
    return { status: 200, headers: [] };
  });
  expect((await fetch(url)).status).toBe(503);
  await eventually(() => expect(gone).toBe(1));
});

test("an answer that waits for something to happen has all the time it takes", async () => {
  const url = await opened(async (request) => {
    request.waits = true;
    await sleep(3 * DEADLINE_MS);
    return { status: 204, headers: [] };
  });
  expect((await fetch(url)).status).toBe(204);
});

test("the time in which a body arrives is the client's; the time after it counts", async () => {
  const url = await opened(async (request) => {
    const body = await request.body(100);
    if (body.kind === "body" && body.bytes.toString() === "hang") await new Promise(() => {});
    return { status: 204, headers: [] };
  });
  const send = (text: string) => {
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        for (const letter of text) {
          await sleep(DEADLINE_MS);
          controller.enqueue(new TextEncoder().encode(letter));
        }
        controller.close();
      },
    });
    return fetch(url, { method: "POST", body, duplex: "half" });
  };
  expect((await send("slow")).status).toBe(204);
  expect((await send("hang")).status).toBe(503);
});
