/** Subscribing is atomic with the tail, may start earlier, and leaves no half state whichever step fails. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import type { Fault } from "../e2e/stage.ts";
import { inline } from "./api.ts";
import type { Method } from "./core.ts";
import { type Stage, stage, subscribers, uuid } from "./stage.ts";

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

describeAloneAndShared("Subscribe is atomic with the tail", (engine) => {
  it("a session gets what is published after its subscription is answered, and nothing published before", async () => {
    const { api } = await stage(engine);
    await api.create("s");
    await api.published("s", "[0,1,2]");
    const first = uuid();
    await api.subscribed(first, "s");
    await api.published("s", "[3,4]");
    const second = uuid();
    await api.subscribed(second, "s");
    await api.published("s", "5");
    expect(await api.messages(first)).toEqual([3, 4, 5]);
    expect(await api.messages(second)).toEqual([5]);
  });

  it("while publishes go on, each session gets everything from one point on, without a gap", async () => {
    const { api, until, registry } = await stage(engine);
    await api.create("s");
    let next = 0;
    let isOver = false;
    const publisher = async () => {
      while (!isOver) await api.published("s", String(next++));
    };
    const publishing = publisher();
    const seen: { id: string; before: number; after: number }[] = [];
    for (let i = 0; i < 10; i++) {
      const id = uuid();
      const before = next;
      await api.subscribed(id, "s");
      seen.push({ id, before, after: next });
    }
    isOver = true;
    await publishing;
    await api.published("s", String(next++));
    await until(async () => expect((await registry("s"))!.lagging).toEqual([]));
    for (const { id, before, after } of seen) {
      const got = (await api.messages(id)) as number[];
      // The one that was on its way when it was asked may be in it or not, and so may the one when it was answered.
      expect(got[0]).toBeGreaterThanOrEqual(before - 1);
      expect(got[0]).toBeLessThanOrEqual(after);
      expect(got).toEqual(upTo(next).slice(got[0]));
    }
  });

  it("with from set to an offset, the messages after it arrive first and new messages after them", async () => {
    const { api, until } = await stage(engine);
    await api.create("s");
    await api.append("s", "[0,1]");
    const from = await api.append("s", "2");
    await api.append("s", "[3,4]");
    const id = uuid();
    await api.subscribed(id, "s", { from });
    await api.published("s", "5");
    await until(async () => expect(await api.messages(id)).toEqual([3, 4, 5]));
  });

  it('from "-1" is everything that is kept, and from "now" is the default', async () => {
    const { api, until } = await stage(engine);
    await api.create("s");
    await api.append("s", "[0,1,2]");
    const [all, none] = [uuid(), uuid()];
    await api.subscribed(all, "s", { from: "-1" });
    await api.subscribed(none, "s", { from: "now" });
    await until(async () => expect(await api.messages(all)).toEqual([0, 1, 2]));
    await api.published("s", "3");
    await until(async () => expect(await api.messages(all)).toEqual([0, 1, 2, 3]));
    expect(await api.messages(none)).toEqual([3]);
  });

  it("a long history is copied in pieces while publishes go on, and other sessions do not wait for it", async () => {
    const { api, until } = await stage(engine, { internal: { fanout: { roundBytes: 100 } } });
    await api.create("s");
    await api.append("s", JSON.stringify(upTo(100)));
    const [late, other] = [uuid(), uuid()];
    await api.subscribed(other, "s");
    await api.subscribed(late, "s", { from: "-1" });
    for (let i = 100; i < 110; i++) await api.published("s", String(i));
    expect(await api.messages(other)).toEqual(upTo(110).slice(100));
    await until(async () => expect(await api.messages(late)).toEqual(upTo(110)));
  });

  it("from a trimmed offset is 410 with the earliest one, from an offset ahead is refused, and nothing is left", async () => {
    const { api, registry } = await stage(engine);
    await api.create("s", "application/json", { "Stream-Max-Messages": "10" });
    const trimmed = await api.append("s", "0");
    for (const i of upTo(30)) await api.append("s", String(i));
    const id = uuid();
    const refused = await api.subscribe(id, "s", { from: trimmed });
    expect(refused).toMatchObject({ status: 410, body: { code: "offset-trimmed" } });
    expect(refused.headers.get("stream-earliest-offset")).toMatch(/_/);
    const ahead = await api.subscribe(id, "s", { from: `${trimmed.split("_")[0]}_0000000000009999` });
    expect(ahead.status).toBeGreaterThanOrEqual(400);
    expect(ahead.body.code).toBe("offset-ahead");
    expect((await api.session(id)).status).toBe(404);
    expect(await registry("s")).toBeUndefined();
  });

  it("from counts for a new subscription only, and a repetition copies nothing again", async () => {
    const { api, until } = await stage(engine);
    await api.create("s");
    await api.append("s", "[0,1]");
    const id = uuid();
    await api.subscribed(id, "s", { from: "-1" });
    await until(async () => expect(await api.messages(id)).toEqual([0, 1]));
    await api.subscribed(id, "s", { from: "-1" });
    await api.published("s", "2");
    expect(await api.messages(id)).toEqual([0, 1, 2]);
    // Left and come back: that is a new one.
    await api.unsubscribe(id, "s");
    await api.append("s", "3");
    await api.subscribed(id, "s");
    await api.published("s", "4");
    expect(await api.messages(id)).toEqual([0, 1, 2, 4]);
  });
});

/** What a client sees after a subscribe that met a fault: all of it or nothing, and all of it when it was told so. */
async function expectWhole(on: Stage, id: string, wasThere: boolean, wasTold = false): Promise<void> {
  const { api, registry } = on;
  const { status, body } = await api.session(id);
  const shown = status === 200 ? body.subscriptions.map(({ streamId }: { streamId: string }) => streamId) : [];
  expect(status).toBe(wasThere || shown.length > 0 ? 200 : status);
  expect((await api.inbox(id)).status).toBe(status);
  if (shown.includes("s")) expect((await registry("s"))!.subscribers).toEqual([id]);
  if (wasThere) expect(shown).toContain("before");
  if (wasTold) expect(shown).toContain("s");
}

/** The client asks again, and everything is as if nothing had been wrong. */
async function expectGood(on: Stage, id: string): Promise<void> {
  const { api, registry } = on;
  await api.subscribed(id, "s");
  expect(
    (await api.session(id)).body.subscriptions.filter(({ streamId }: { streamId: string }) => streamId === "s"),
  ).toHaveLength(1);
  expect(await api.published("s", "1")).toMatchObject({ successes: 1, failures: 0 });
  expect(await api.messages(id)).toEqual([1]);
  expect(await registry("s")).toMatchObject({ count: 1, laggards: 0, subscribers: [id] });
  expect((await api.delete(id)).status).toBe(204);
  expect(await registry("s")).toBeUndefined();
}

describeAloneAndShared("No half state, whichever step of subscribing fails", (engine) => {
  for (const wasThere of [false, true]) {
    const who = wasThere ? "a session that exists" : "a new session";

    it.each<[Method, Fault]>([
      ["follow", "refused"],
      ["follow", "lost"],
      ["join", "refused"],
      ["join", "lost"],
    ])(`${who}: %s is %s`, async (method, fault) => {
      const on = await stage(engine);
      const id = uuid();
      for (const stream of ["s", "before"]) await on.api.create(stream);
      if (wasThere) await on.api.subscribed(id, "before");
      on.core.fate = (call) => (call.method === method ? fault : undefined);
      expect((await on.api.subscribe(id, "s")).status).toBe(503);
      on.core.fate = () => undefined;
      await expectWhole(on, id, wasThere);
      await expectGood(on, id);
    });

    it.each<Fault>(["refused", "lost"])(`${who}: each commit in turn is %s`, async (fault) => {
      const on = await stage(engine);
      for (let failing = 0, isOver = false; !isOver; failing++) {
        const id = uuid();
        for (const stream of ["s", "before"]) {
          await on.api.call("DELETE", `/stream/${stream}`);
          await on.api.create(stream);
        }
        if (wasThere) await on.api.subscribed(id, "before");
        let commits = 0;
        on.trouble.fate = () => (commits++ === failing ? fault : undefined);
        const { status } = await on.api.subscribe(id, "s");
        on.trouble.fate = undefined;
        isOver = commits <= failing;
        expect(status).toBe(isOver ? 200 : 503);
        await expectWhole(on, id, wasThere, status === 200);
        await expectGood(on, id);
        expect(failing).toBeLessThan(10);
      }
      on.reports.length = 0;
    });
  }

  it.each<Fault>(["refused", "lost"])(
    "a session that subscribed misses nothing when it subscribes again and the last step is %s",
    async (fault) => {
      const on = await stage(engine);
      await on.api.create("s");
      const id = uuid();
      let steps = 0;
      on.trouble.fate = ({ entity }) => (entity.kind === "session" && ++steps === 2 ? fault : undefined);
      const first = await on.api.subscribe(id, "s");
      on.trouble.fate = undefined;
      expect(steps).toBe(2);
      on.core.fate = ({ method }) => (method === "deliver" ? "refused" : undefined);
      await on.api.append("s", "0");
      await on.api.subscribed(id, "s");
      await on.api.append("s", "1");
      on.core.fate = () => undefined;
      const owed = first.status === 200 ? [0, 1] : [1];
      await on.until(async () => expect((await on.api.messages(id)).slice(-owed.length)).toEqual(owed), 500);
    },
  );

  it("a subscriber that a failed attempt left in the registry is found stale and removed", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const id = uuid();
    // The registry has it, but the reply was lost, so the session is rolled back.
    on.trouble.fate = ({ entity }) => (entity.kind === "fanout" ? "lost" : undefined);
    expect((await on.api.subscribe(id, "s")).status).toBe(503);
    on.trouble.fate = undefined;
    expect((await on.api.session(id)).status).toBe(404);
    expect(await on.api.published("s", "1")).toMatchObject({ successes: 0, failures: 0 });
    expect(await on.registry("s")).toBeUndefined();
    expect(await on.api.published("s", "2")).toEqual(inline(0));
  });
});

describeAloneAndShared("A deleted and recreated session inherits nothing", (engine) => {
  it("a recreated session has neither messages nor subscriptions, and offsets of the old one mean nothing to it", async () => {
    const { api } = await stage(engine);
    for (const stream of ["a", "b"]) await api.create(stream);
    const id = uuid();
    for (const stream of ["a", "b"]) await api.subscribed(id, stream);
    for (const stream of ["a", "b"]) await api.published(stream, "1");
    const offset = (await api.inbox(id)).headers.get("stream-next-offset")!;
    await api.delete(id);
    expect((await api.subscribed(id, "a")).body.isNewSession).toBe(true);
    expect((await api.session(id)).body.subscriptions).toMatchObject([{ streamId: "a" }]);
    expect(await api.published("b", "2")).toEqual(inline(0));
    await api.published("a", "3");
    expect(await api.messages(id)).toEqual([3]);
    // Whatever a reader of the old one is told, it is not that it has everything.
    const resumed = await api.inbox(id, `?offset=${offset}`);
    expect(resumed.status === 200 ? resumed.body : [3]).toEqual([3]);
  });

  it("a copy on its way to the deleted session does not reach the recreated one", async () => {
    const on = await stage(engine);
    await on.api.create("s");
    const [id] = await subscribers(on.api, "s", 1);
    on.core.fate = ({ method }) => (method === "deliver" ? "stuck" : undefined);
    await on.api.append("s", "1");
    await on.until(() => expect(on.core.pending).toBe(1), 0);
    expect((await on.api.delete(id!)).status).toBe(204);
    expect((await on.api.subscribed(id!, "s")).body.isNewSession).toBe(true);
    on.core.fate = () => undefined;
    on.core.release();
    await on.api.published("s", "2");
    await on.until(async () => expect(await on.api.messages(id!)).toEqual([2]));
    expect((await on.registry("s"))!.subscribers).toEqual([id]);
  });

  it("a session that expired and was not cleaned up yet makes room for a new one", async () => {
    const { api, pass, points } = await stage(engine);
    for (const stream of ["a", "b"]) await api.create(stream);
    const id = uuid();
    for (const stream of ["a", "b"]) await api.subscribed(id, stream);
    await api.published("a", "1");
    pass(1_980_000);
    expect((await api.subscribed(id, "b")).body.isNewSession).toBe(true);
    expect(points.filter(({ blobs }) => blobs[2] === "session_expire")).toHaveLength(1);
    expect(await api.published("a", "2")).toEqual(inline(0));
    expect(await api.published("b", "3")).toEqual(inline(1));
    expect(await api.messages(id)).toEqual([3]);
  });

  it("a recreated stream has no subscribers of the deleted one", async () => {
    const { api, until, registry } = await stage(engine);
    await api.create("s");
    const [id] = await subscribers(api, "s", 1);
    await api.published("s", "1");
    await api.call("DELETE", "/stream/s");
    await api.create("s");
    await until(async () => expect(await registry("s")).toBeUndefined());
    expect(await api.published("s", "2")).toEqual(inline(0));
    expect((await api.session(id!)).body.subscriptions).toEqual([]);
    expect(await api.messages(id!)).toEqual([1]);
    await api.subscribed(id!, "s");
    expect(await api.published("s", "3")).toEqual(inline(1));
    expect(await api.messages(id!)).toEqual([1, 3]);
  });
});
