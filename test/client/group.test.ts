/** Groups through the client, against a real server: the iterator, the handler, acknowledgements, hand-over, leaving. */
import type { GroupEvent, GroupMessage, GroupOptions } from "@sluice/client";
import { beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { createServer, type RunningServer } from "../../packages/server/src/compose.ts";
import { eventually } from "../e2e/server.ts";
import { noUnhandledRejections, numbersTo, openClient } from "./open-client.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await createServer({ port: 0, memory: true, log: false });
  return () => server.close();
});

/** A client and a stream of numbers, with a group that is to process them from the beginning. */
async function numbers(path: string, count: number, mode: "share" | "queue" = "share") {
  noUnhandledRejections();
  const client = openClient(server.url);
  const stream = client.stream<number>(path);
  await stream.create();
  for (const value of numbersTo(count)) void stream.append(value);
  await client.flush();
  const name = path.replaceAll("/", "-");
  await client.group(name, path, { mode }).declare({ from: "earliest" });
  const member = (options: GroupOptions = {}) => client.group<number>(name, path, { mode, WebSocket, ...options });
  return { client, stream, member, name };
}

test("a loop over a group gets each message once, and what it acknowledged is not delivered to the next member", async () => {
  const { member } = await numbers("loop", 5);
  const seen: number[] = [];
  for await (const message of member()) {
    seen.push(message.value);
    if (seen.length === 4) break;
    await message.ack();
  }
  const rest: number[] = [];
  for await (const message of member()) {
    rest.push(message.value);
    if (rest.length === 2) break;
  }
  expect([seen, rest]).toEqual([
    [0, 1, 2, 3],
    [3, 4],
  ]);
});

test("an acknowledgement that is not waited for is durable before the loop has ended", async () => {
  const { member, client, name } = await numbers("unwaited", 200);
  let last = 0;
  for await (const message of member({ credit: 50 })) {
    void message.ack();
    last = message.value;
    if (last === 199) break;
  }
  expect((await client.group(name).info()).lag).toBe(0);
});

test("a handler gets the messages of a stream in order, and those of several streams at the same time", async () => {
  const { client } = await numbers("many/0", 20);
  const group = client.group<number>("many", "many/+", { from: "earliest", WebSocket });
  const other = client.stream<number>("many/1");
  await other.create();
  for (const value of numbersTo(20)) void other.append(value);
  await client.flush();
  const seen = new Map<string, number[]>([
    ["many/0", []],
    ["many/1", []],
  ]);
  const running = new Set<string>();
  let most = 0;
  const done = group.run(
    async ({ stream, value }) => {
      expect(running.has(stream)).toBe(false);
      running.add(stream);
      most = Math.max(most, running.size);
      await new Promise((resolve) => setTimeout(resolve, 1));
      seen.get(stream)!.push(value);
      running.delete(stream);
    },
    { concurrency: 4 },
  );
  await eventually(() => expect([...seen.values()]).toEqual([numbersTo(20), numbersTo(20)]));
  await group.close();
  await done;
  expect(most).toBe(2);
  expect((await client.group("many").info()).lag).toBe(0);
});

test("a message of a queue whose handler fails comes again as a further attempt, and others flow meanwhile", async () => {
  const { member, client, name } = await numbers("poison", 4, "queue");
  const seen: (readonly [number, number])[] = [];
  const failed: unknown[] = [];
  const group = member();
  const done = group.run(
    ({ value, attempt }) => {
      seen.push([value, attempt!]);
      if (value === 0 && attempt === 1) throw new Error("no");
    },
    { retryMs: 20, onError: (error) => void failed.push(error) },
  );
  await eventually(() => expect(seen).toContainEqual([0, 2]));
  await group.close();
  await done;
  expect(seen).toEqual([
    [0, 1],
    [1, 1],
    [2, 1],
    [3, 1],
    [0, 2],
  ]);
  expect(failed).toMatchObject([{ message: "no" }]);
  expect((await client.group(name).info()).lag).toBe(0);
});

test("a handler that fails ends the run of a shared group, which stays before that message", async () => {
  const { member } = await numbers("failing", 3);
  const run = member().run(({ value }) => {
    if (value === 1) throw new Error("no");
  });
  await expect(run).rejects.toMatchObject({ code: "handler-failed", cause: { message: "no" } });
  for await (const { value } of member()) {
    expect(value).toBe(1);
    break;
  }
});

test("a member that joins gets its share; the other acknowledges what it has before it gives a stream back", async () => {
  const { client } = await numbers("two/0", 10);
  const other = client.stream<number>("two/1");
  await other.create();
  for (const value of numbersTo(10)) void other.append(value);
  await client.flush();
  const seen: string[] = [];
  const told: GroupEvent[] = [];
  const held = new Set<string>();
  const onEvent = (event: GroupEvent) => {
    told.push(event);
    if (event.type === "granted") held.add(event.stream);
    if (event.type === "revoked") held.delete(event.stream);
  };
  const handle = ({ stream, value }: GroupMessage<number>) => void seen.push(`${stream} ${value}`);
  const a = client.group<number>("two", "two/+", { from: "earliest", onEvent, WebSocket });
  const running = a.run(handle);
  await eventually(() => expect(held.size).toBe(2));
  const b = client.group<number>("two", "two/+", { WebSocket });
  const alsoRunning = b.run(handle);
  await eventually(() => expect(held.size).toBe(1));
  await eventually(() => expect(seen).toHaveLength(20));
  // Closing the client closes its members.
  await client.close();
  await Promise.all([running, alsoRunning]);
  expect(new Set(seen).size).toBe(20);
  const lost = told.filter(({ type }) => type.startsWith("revok")).map(({ type }) => type);
  expect(lost).toEqual(["revoking", "revoked"]);
});

test("close waits for the messages that were handed out, hands out no more, and gives back the rest unused", async () => {
  const { member } = await numbers("drain", 10, "queue");
  const group = member();
  const iterator = group[Symbol.asyncIterator]();
  const { value: first } = await iterator.next();
  let isClosed = false;
  const closing = group.close().then(() => {
    isClosed = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const next = iterator.next();
  expect(isClosed).toBe(false);
  await first!.ack();
  await closing;
  expect(await next).toEqual({ done: true, value: undefined });
  for await (const { value, attempt } of member()) {
    expect([value, attempt]).toEqual([1, 1]);
    break;
  }
});

test("a refusal ends the loop with its code, and options are checked at once", async () => {
  const client = openClient(server.url);
  const next = client.group("g", "__ds/x", { WebSocket })[Symbol.asyncIterator]().next();
  await expect(next).rejects.toMatchObject({ code: "reserved-name" });
  expect(() => client.group("a/b", "c")).toThrow(TypeError);
  expect(() => client.group("a", "")).toThrow(TypeError);
  expect(() => client.group("a", "b", { credit: 0 })).toThrow(TypeError);
  expect(() => client.group("a", "b", { mode: "other" as never })).toThrow(TypeError);
  await expect(client.group("a", undefined, { WebSocket }).run(() => {})).rejects.toThrow("filter");
});

test("admin calls list, describe, move and remove a group", async () => {
  const { client, name } = await numbers("admin", 3);
  const group = client.group(name);
  const listed: unknown[] = [];
  for await (const one of client.groups()) listed.push(one);
  expect(listed).toContainEqual({ group: name, mode: "share", filter: "admin" });
  expect(await group.info()).toMatchObject({ group: name, mode: "share", members: [] });
  expect(await client.group(name, "admin").declare()).toEqual({ created: false });
  await group.seek("earliest");
  expect(await group.remove()).toEqual({ deleted: true });
  await expect(group.info()).rejects.toMatchObject({ code: "group-not-found" });
});
