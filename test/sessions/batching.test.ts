/** How much of a fan-out is under way at a time, and for how long. The constants by which that goes are in `constants`. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { LocalQueue } from "../../packages/server/src/sessions/queue.ts";
import { inline } from "./api.ts";
import { stage, subscribers } from "./stage.ts";

afterEach(() => vi.restoreAllMocks());

/** What is handed to the queue, call by call. */
function watchQueue() {
  const send = vi.spyOn(LocalQueue.prototype, "send");
  return { sent: () => send.mock.calls.map(([messages]) => messages) };
}

describe("Fan-out batching", () => {
  it("an inline fan-out has at most one batch of copies under way", async () => {
    const { api, core } = await stage("memory", { internal: { fanout: { batch: 3 } } });
    await api.create("s");
    const sessions = await subscribers(api, "s", 10);
    core.atOnce = 0;
    expect(await api.published("s", "1")).toEqual(inline(10));
    expect(core.atOnce).toBe(3);
    expect(new Set(core.posts().map(({ id }) => id))).toEqual(new Set(sessions));
  });

  it("a copy that fails keeps no other copy of its batch from succeeding", async () => {
    const { api, core } = await stage("memory", { internal: { fanout: { batch: 3 } } });
    await api.create("s");
    const sessions = await subscribers(api, "s", 7);
    core.fate = ({ method, id }) => (method === "deliver" && id === sessions[1] ? "refused" : undefined);
    expect(await api.published("s", "1")).toEqual(inline(7, 6, 1));
    for (const [i, session] of sessions.entries()) expect(await api.messages(session)).toEqual(i === 1 ? [] : [1]);
  });

  it("a copy that takes longer than its timeout is not waited for", async () => {
    const { api, core, pass, until } = await stage("memory", { fanout: { timeoutMs: 2_000 } });
    await api.create("s");
    const [stuck, well] = await subscribers(api, "s", 2);
    core.fate = ({ method, id }) => (method === "deliver" && id === stuck ? "stuck" : undefined);
    let answer: unknown;
    const publishing = api.published("s", "1").then((headers) => {
      answer = headers;
    });
    await until(async () => expect(await api.messages(well!)).toEqual([1]), 0);
    await until(() => expect(core.pending).toBe(1), 0);
    pass(1_999);
    await api.session(well!);
    expect(answer).toBeUndefined();
    pass(1);
    await publishing;
    expect(answer).toEqual(inline(2, 1, 1));
    // It was only late: what it does when it comes back is no harm.
    core.fate = () => undefined;
    core.release();
    await until(async () => expect(await api.messages(stuck!)).toEqual([1]));
  });

  it("a queued fan-out splits sessions into groups, one per queue message, with payload and fan-out sequence", async () => {
    const { sent } = watchQueue();
    const settings = { fanout: { queueThreshold: 5 }, internal: { fanout: { queueBatch: 3, queuePaceMs: 0 } } };
    const { api, core, until } = await stage("memory", settings);
    await api.create("s", "text/plain");
    const sessions = await subscribers(api, "s", 8);
    await api.published("s", "hello", "text/plain");
    await until(() => expect(core.calls.filter(({ method }) => method === "deliver")).toHaveLength(8), 0);
    const messages = sent().flat();
    expect(messages.map((message) => message.sessions.map(({ session }) => session))).toEqual([
      sessions.slice(0, 3),
      sessions.slice(3, 6),
      sessions.slice(6),
    ]);
    for (const { projectId, streamId, copy } of messages) {
      expect([projectId, streamId, copy.contentType]).toEqual(["default", "s", "text/plain"]);
      expect(copy.logged.map(({ payload }) => Buffer.from(payload).toString())).toEqual(["hello"]);
      expect(copy.fanoutSeq).toBe(1);
    }
  });

  it("the queue messages of one fan-out are sent together, and consumed a few at a time", async () => {
    const { sent } = watchQueue();
    const inside = { queueBatch: 2, queueConsumers: 2, queuePaceMs: 0 };
    const settings = { fanout: { queueThreshold: 5 }, internal: { fanout: inside } };
    const { api, core, until } = await stage("memory", settings);
    await api.create("s");
    const sessions = await subscribers(api, "s", 13);
    core.atOnce = 0;
    await api.published("s", "1");
    await until(async () => {
      for (const session of sessions) expect(await api.messages(session)).toEqual([1]);
    }, 0);
    expect(sent().map(({ length }) => length)).toEqual([7]);
    expect(core.atOnce).toBe(4);
  });
});
