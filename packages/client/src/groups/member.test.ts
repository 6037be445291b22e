import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import type { GroupEvent, GroupOptions } from "../group-options.ts";
import { Sluice } from "../sluice.ts";
import type { SocketLike } from "../text-socket.ts";
import type { GroupMessage } from "./delivery.ts";

class FakeSocket implements SocketLike {
  static all: FakeSocket[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { readonly data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly sent: Record<string, unknown>[] = [];
  readonly madeAt = Date.now();
  isClosed = false;

  constructor(
    readonly url: string,
    readonly options?: unknown,
  ) {
    FakeSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.isClosed = true;
  }

  says(...frames: object[]): void {
    for (const frame of frames) this.onmessage?.({ data: JSON.stringify({ id: "s", ...frame }) });
  }

  get acks(): unknown[] {
    return this.sent.filter(({ type }) => type === "ack").map(({ offset }) => offset);
  }
}

afterEach(() => {
  FakeSocket.all = [];
});

const offsetOf = (n: number) => String(n).padStart(4, "0");
const message = (n: number, more: object = { epoch: 1 }, stream = "a") => ({
  ...{ type: "message", stream, offset: offsetOf(n), payload: n, contentType: "application/json" },
  ...more,
});
const granted = (epoch = 1, stream = "a") => ({ type: "granted", stream, epoch });
const acked = (n: number) => ({ type: "acked", stream: "a", offset: offsetOf(n) });

/** Lets all that is ready run. */
const turn = () => new Promise((resolve) => setTimeout(resolve, 0));

interface Setting {
  readonly options?: GroupOptions;
  readonly fetch?: typeof fetch;
  readonly token?: string;
}

/** Loading the part of groups takes a while on a busy machine. */
const sockets = (count: number) => vi.waitFor(() => expect(FakeSocket.all).toHaveLength(count), { timeout: 15_000 });

/** A member whose first connection is open. */
async function joined({ options = {}, fetch = refusing(400, "bad-request"), token }: Setting = {}) {
  const client = new Sluice({ url: "http://x", fetch, token, retries: { minMs: 1, maxMs: 5 } });
  const group = client.group<number>("g", "a/#", { WebSocket: FakeSocket, member: "m", ...options });
  const messages = group[Symbol.asyncIterator]();
  const first = messages.next();
  // A test that ends early leaves it waiting.
  first.catch(() => {});
  await sockets(1);
  const [socket] = FakeSocket.all;
  socket!.onopen?.();
  socket!.says({ type: "subscribed" });
  onTestFinished(() => group.close({ drainMs: 0 }));
  const next = async (): Promise<GroupMessage<number>> => (await messages.next()).value!;
  return { group, socket: socket!, first: first.then(({ value }) => value!), messages, next };
}

function refusing(status: number, code: string): typeof fetch {
  return async () => new Response(JSON.stringify({ code, detail: code, retryable: false }), { status });
}

test("a member subscribes under its name, with its topic, and asks for its credit", async () => {
  const { socket } = await joined({ options: { credit: 7, from: "earliest", mode: "queue" }, token: "t" });
  expect(socket.url).toBe("ws://x/v1/default/consume?member=m");
  expect(socket.options).toEqual({ headers: { Authorization: "Bearer t" } });
  expect(socket.sent).toEqual([
    { type: "subscribe", id: "s", topic: "$queue/g/a/#", from: "earliest", credit: 7, batch: true },
  ]);
});

test("acknowledgements that come while one is under way go together, and each resolves when it is durable", async () => {
  const { socket, first, next } = await joined();
  socket.says(granted(), message(1), message(2), message(3), message(4));
  const resolved: number[] = [];
  for (const one of [await first, await next(), await next(), await next()]) {
    void one.ack().then(() => resolved.push(one.value));
  }
  await turn();
  expect(socket.acks).toEqual([offsetOf(1)]);
  socket.says(acked(1));
  await turn();
  expect([socket.acks, resolved]).toEqual([[offsetOf(1), offsetOf(4)], [1]]);
  socket.says(acked(3));
  await turn();
  expect(resolved).toEqual([1, 2, 3]);
  socket.says(acked(4));
  await turn();
  expect([socket.acks.length, resolved]).toEqual([2, [1, 2, 3, 4]]);
});

test("a stream that is to be given back comes first, and after it is revoked nothing of it is handed out", async () => {
  const { socket, first, next } = await joined();
  const ofB = message(1, { epoch: 1 }, "b");
  socket.says(granted(1, "b"), granted(), message(1), message(2), ofB, message(3), message(4));
  socket.says({ type: "revoking", stream: "a", epoch: 1 });
  const [one, two, three] = [await first, await next(), await next()];
  expect([one, two, three].map(({ stream, value }) => `${stream}${value}`)).toEqual(["a1", "a2", "a3"]);
  const early = one.ack();
  socket.says(acked(1));
  await early;
  const late = three.ack();
  socket.says({ type: "revoked", stream: "a", epoch: 1 });
  await expect(late).rejects.toMatchObject({ code: "fenced" });
  expect((await next()).stream).toBe("b");
  await expect(two.ack()).rejects.toMatchObject({ code: "fenced" });
});

test("a message of a queue that came under two leases is refused by the old one and confirmed by the new one", async () => {
  const { socket, first, next } = await joined({ options: { mode: "queue" } });
  socket.says(message(1, { lease: 1, attempt: 1 }), message(1, { lease: 2, attempt: 2 }));
  const [old, fresh] = [await first, await next()];
  const [late, good] = [old.ack(), fresh.ack()];
  socket.says({ type: "error", stream: "a", offset: offsetOf(1), lease: 1, code: "fenced", detail: "over" });
  await expect(late).rejects.toMatchObject({ code: "fenced" });
  socket.says(acked(1));
  await good;
});

test("a refused or extended message of a queue is told with its lease, and settled once", async () => {
  const { socket, first } = await joined({ options: { mode: "queue" } });
  socket.says(message(1, { lease: 9, attempt: 1 }));
  const one = await first;
  one.extend(500);
  one.nack({ delayMs: 20 });
  one.nack();
  await one.ack();
  const about = { id: "s", stream: "a", offset: offsetOf(1), lease: 9 };
  expect(socket.sent.slice(1)).toEqual([
    { type: "extend", ...about, leaseMs: 500 },
    { type: "nack", ...about, delayMs: 20 },
  ]);
});

test("a message of a shared stream can be neither refused nor extended", async () => {
  const { socket, first } = await joined();
  socket.says(granted(), message(1));
  const one = await first;
  expect(() => one.nack()).toThrow(TypeError);
  expect(() => one.extend(1)).toThrow(TypeError);
});

test("a member comes back after bye, not before it was asked to, and gets nothing of the old connection", async () => {
  const events: GroupEvent["type"][] = [];
  const onEvent = ({ type }: GroupEvent) => void events.push(type);
  const { socket, first, next } = await joined({ options: { onEvent } });
  socket.says(granted(), message(1), message(2));
  const one = await first;
  const unsure = one.ack();
  const beganAt = Date.now();
  socket.says({ type: "bye", code: "draining", reconnect: true, retryMs: 30 });
  await expect(unsure).rejects.toMatchObject({ code: "draining", retryable: true });
  await sockets(2);
  const second = FakeSocket.all[1]!;
  expect(second.madeAt - beganAt).toBeGreaterThanOrEqual(29);
  second.onopen?.();
  second.says({ type: "subscribed" }, granted(2), message(1, { epoch: 2 }));
  expect(await next()).toMatchObject({ value: 1 });
  await expect(one.ack()).rejects.toMatchObject({ code: "draining" });
  expect([socket.isClosed, second.url]).toEqual([true, socket.url]);
  expect(events).toEqual(["connected", "granted", "disconnected", "connected", "granted"]);
});

test("a WebSocket that is refused is asked about by a plain request, whose refusal ends the loop", async () => {
  const client = new Sluice({ url: "http://x", fetch: refusing(403, "forbidden") });
  const next = client.group("g", "a", { WebSocket: FakeSocket })[Symbol.asyncIterator]().next();
  await sockets(1);
  FakeSocket.all[0]!.onerror?.();
  await expect(next).rejects.toMatchObject({ code: "forbidden", status: 403 });
});

test("a loop that was left before its first message joins no group afterwards", async () => {
  const client = new Sluice({ url: "http://x", fetch: refusing(400, "bad-request") });
  const messages = client.group("g", "a/#", { WebSocket: FakeSocket })[Symbol.asyncIterator]();
  expect(await messages.return!()).toEqual({ done: true, value: undefined });
  expect(await messages.next()).toEqual({ done: true, value: undefined });
  expect(FakeSocket.all).toEqual([]);
});

test("a connection that falls silent is asked for a word, and replaced when none comes", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { socket } = await joined();
  await vi.advanceTimersByTimeAsync(26_000);
  const question = { type: "unsubscribe", id: "-" };
  expect(socket.sent.slice(1)).toEqual([question]);
  socket.says({ type: "error", id: "-", code: "bad-body", detail: "names no subscription" });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(socket.isClosed).toBe(false);
  await vi.advanceTimersByTimeAsync(31_000);
  expect([socket.isClosed, FakeSocket.all.length]).toEqual([true, 2]);
});
