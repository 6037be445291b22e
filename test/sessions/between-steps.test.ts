/** Another client acts between two steps of a request: what each client was promised holds. */
import { afterEach, expect, it, vi } from "vitest";
import { Roster } from "../../packages/server/src/sessions/roster.ts";
import { describeAloneAndShared } from "../e2e/server.ts";
import { inline } from "./api.ts";
import { type Stage, stage, subscribers, uuid } from "./stage.ts";

afterEach(() => vi.restoreAllMocks());

const LARGE = "x".repeat(3_000);
const GRACE_MS = 250;
/** How long a hold that may rise can wait to be stored. */
const HOLD_PACE_MS = 5_000;
const FEW = { "Stream-Max-Messages": "5" };

/** A session that subscribes from an offset on, and gets no further than that the stream knows of it before `go`. */
async function halfway({ api, core, until }: Stage, from: string) {
  const id = uuid();
  core.fate = (call) => (call.method === "join" && call.id === id ? "stuck" : undefined);
  const subscribing = api.subscribe(id, "s", { from });
  await until(() => expect(core.calls.some((call) => call.method === "join" && call.id === id)).toBe(true), 0);
  const go = async () => {
    core.fate = () => undefined;
    core.release();
    expect((await subscribing).status).toBe(200);
  };
  return { id, go };
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

describeAloneAndShared("Between two steps", (engine) => {
  it("a session that subscribes while a large payload is copied gets a copy of its own, and keeps it when the others go", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const early = await subscribers(on.api, "s", 2);
    const tail = (await on.api.call("HEAD", "/stream/s")).headers.get("stream-next-offset")!;
    on.core.fate = ({ method, id }) => (method === "deliver" && early.includes(id) ? "stuck" : undefined);
    await on.api.append("s", JSON.stringify(LARGE));
    await on.until(() => expect(on.core.pending).toBe(2), 0);
    on.pass(GRACE_MS);
    const late = uuid();
    await on.api.subscribed(late, "s", { from: tail });
    await on.until(async () => expect(await on.api.messages(late)).toEqual([LARGE]), 0);
    expect((await on.registry("s"))!.lent).toBe(1);
    for (const session of early) expect((await on.api.delete(session)).status).toBe(204);
    on.core.fate = () => undefined;
    on.core.release();
    // No session is left that could have borrowed it.
    await on.until(async () => expect((await on.registry("s"))!.lent).toBe(0), 10_000);
    expect(await on.api.messages(late)).toEqual([LARGE]);
  });

  it("the source keeps what a new subscription starts from, although other sessions are copied to meanwhile", async () => {
    const on = await stage(engine);
    await on.api.create("s", "application/json", FEW);
    await subscribers(on.api, "s", 1);
    const from = await on.api.append("s", "0");
    for (const i of [1, 2, 3]) expect(await on.api.published("s", String(i))).toEqual(inline(1));
    const late = await halfway(on, from);
    on.pass(HOLD_PACE_MS);
    for (const i of upTo(30).slice(4)) expect(await on.api.published("s", String(i))).toEqual(inline(1));
    await late.go();
    await on.until(async () => expect(await on.api.messages(late.id)).toEqual(upTo(30).slice(1)));
    expect((await on.api.session(late.id)).body.subscriptions[0].missed).toBeUndefined();
  });

  it("the source keeps what a new subscription starts from, although no other session follows any more", async () => {
    const on = await stage(engine);
    await on.api.create("s", "application/json", FEW);
    const [gone] = await subscribers(on.api, "s", 1);
    const from = await on.api.append("s", "0");
    await on.api.delete(gone!);
    for (const i of [1, 2, 3]) await on.api.append("s", String(i));
    const late = await halfway(on, from);
    for (const i of upTo(30).slice(4)) await on.api.append("s", String(i));
    await late.go();
    await on.until(async () => expect(await on.api.messages(late.id)).toEqual(upTo(30).slice(1)));
    expect((await on.api.session(late.id)).body.subscriptions[0].missed).toBeUndefined();
  });

  it("a subscription is refused when retention trims its start before the subscription could hold it", async () => {
    const on = await stage(engine);
    await on.api.create("s", "application/json", FEW);
    const from = await on.api.append("s", "0");
    on.core.fate = ({ method }) => (method === "follow" ? "stuck" : undefined);
    const id = uuid();
    const subscribing = on.api.subscribe(id, "s", { from });
    await on.until(() => expect(on.core.pending).toBe(1), 0);
    for (const i of upTo(20).slice(1)) await on.api.append("s", String(i));
    on.core.fate = () => undefined;
    on.core.release();
    const { status, headers } = await subscribing;
    expect([status, headers.has("stream-earliest-offset")]).toEqual([410, true]);
    expect((await on.api.session(id)).status).toBe(404);
  });

  it("a session that follows a recreated stream is not removed with the followers of the deleted one", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const [old] = await subscribers(on.api, "s", 1);
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    // The first read, which is that of the cleanup, is answered late.
    const { engine: store } = on;
    const rows = store.rows.bind(store);
    let asked = 0;
    store.rows = async (e, table, after, limit) => {
      if (e.kind === "fanout" && asked++ === 0) await held;
      return rows(e, table, after, limit);
    };
    expect((await on.api.call("DELETE", "/stream/s")).status).toBe(204);
    await on.until(() => expect(asked).toBe(1), 0);
    await on.api.create("s");
    const [next] = await subscribers(on.api, "s", 1);
    go();
    await on.until(async () => expect((await on.api.session(old!)).body.subscriptions).toEqual([]), 0);
    expect(await on.api.published("s", "1")).toEqual(inline(1));
    expect(await on.api.published("s", "2")).toEqual(inline(1));
    expect(await on.api.messages(next!)).toEqual([1, 2]);
    expect((await on.api.session(next!)).body.subscriptions).toHaveLength(1);
    expect(await on.api.messages(old!)).toEqual([]);
  });

  it("a recreated stream without followers keeps nothing for the followers of the deleted one", async () => {
    const on = await stage(engine);
    await on.api.create("s", "application/json", FEW);
    await subscribers(on.api, "s", 1);
    const { streams } = on.app;
    const hold = streams.hold.bind(streams);
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    const holding = vi.spyOn(streams, "hold").mockImplementationOnce((...args) => held.then(() => hold(...args)));
    await on.api.append("s", "0");
    await on.until(() => expect(holding).toHaveBeenCalledTimes(1), 0);
    expect((await on.api.call("DELETE", "/stream/s")).status).toBe(204);
    await on.api.create("s", "application/json", FEW);
    go();
    await holding.mock.results[0]!.value;
    for (const i of upTo(20)) await on.api.append("s", String(i));
    expect((await on.api.call("GET", "/stream/s?offset=-1")).body.length).toBeLessThan(10);
  });

  it("a late attempt to subscribe does not undo a later one that has succeeded", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const { add } = Roster.prototype;
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    const adding = vi.spyOn(Roster.prototype, "add").mockImplementationOnce(async function (this: Roster, input) {
      await held;
      return add.call(this, input);
    });
    const id = uuid();
    const late = on.api.subscribe(id, "s");
    await on.until(() => expect(adding).toHaveBeenCalledTimes(1), 0);
    await on.api.subscribed(id, "s");
    expect(await on.api.published("s", "1")).toEqual(inline(1));
    go();
    await late;
    expect(await on.api.published("s", "2")).toEqual(inline(1));
    expect(await on.api.messages(id)).toEqual([1, 2]);
    expect(await on.registry("s")).toMatchObject({ count: 1, subscribers: [id] });
  });
});
