/** Sessions that are over: found through an index in the store, and cleaned up step by step. When and how many at a time is in `faults-and-kills`. */
import { expect, it } from "vitest";
import { describeAloneAndShared } from "../e2e/server.ts";
import { stage, subscribers, typesOf, uuid } from "./stage.ts";

const FIVE_MINUTES = 300_000;
const TTL_MS = 1_800_000;
/** A session may live a tenth longer than it was promised; the clean-up is at the next full interval. */
const LATEST_MS = TTL_MS * 1.1 + FIVE_MINUTES;

/** Where several nodes serve they look after each other's registries too, which is not what is counted here. */
const ALONE = { internal: { fanout: { checkMs: 1_000_000_000 } } };

describeAloneAndShared("Scheduled clean-up", (engine) => {
  it("the cleanup interval is a setting", async () => {
    const { api, pass, sweep, points } = await stage(engine, {
      sessionTtlSeconds: 10,
      internal: { session: { cleanupMs: 1_000 } },
    });
    await api.create("s");
    await api.subscribed(uuid(), "s");
    pass(12_000);
    await sweep();
    expect(typesOf(points)).toContain("session_expire");
  });

  it("the cleanup finds expired sessions in an index of the store, and no others", async () => {
    const { api, pass, sweep, tracked, points } = await stage(engine);
    await api.create("s");
    const old = await subscribers(api, "s", 3);
    pass(FIVE_MINUTES * 2);
    const young = await subscribers(api, "s", 3);
    await api.touch(old[0]!);
    pass(LATEST_MS - FIVE_MINUTES * 2);
    await sweep();
    const expired = points.filter(({ blobs }) => blobs[2] === "session_expire").map(({ blobs }) => blobs[1]);
    expect(expired.sort()).toEqual(old.slice(1));
    const left = (await tracked()).filter(({ kind }) => kind === "session").map(({ id }) => id);
    expect(left.sort()).toEqual([old[0]!, ...young].map((id) => `session:${id}`).sort());
  });

  it("the cleanup deletes the session stream last", async () => {
    const { api, pass, sweep, core, trouble } = await stage(engine);
    const alice = uuid();
    await api.create("s");
    await api.subscribed(alice, "s");
    await api.published("s", "1");
    pass(LATEST_MS);
    core.calls.length = 0;
    trouble.committed.length = 0;
    await sweep();
    expect(core.calls.map(({ method, id }) => [method, id])).toEqual([["remove", alice]]);
    const kinds = trouble.committed.filter(({ effects }) => effects.length > 0).map(({ entity }) => entity.kind);
    expect(kinds.at(-1)).toBe("session");
    expect(kinds.lastIndexOf("fanout")).toBeLessThan(kinds.length - 1);
    expect(kinds).toContain("fanout");
    expect((await api.inbox(alice)).status).toBe(404);
  });

  it("a step that fails is reported and repeated, and clients do not see the session meanwhile", async () => {
    const { api, pass, sweep, points, reports, trouble, registry } = await stage(engine, ALONE);
    const [alice, bob] = [uuid(), uuid()];
    for (const [session, stream] of [
      [alice, "a"],
      [bob, "b"],
    ] as const) {
      await api.create(stream);
      await api.subscribed(session, stream);
    }
    pass(LATEST_MS);
    points.length = 0;
    trouble.fate = ({ entity }) => (entity.kind === "fanout" && entity.id === "a" ? "refused" : undefined);
    await sweep();
    trouble.fate = undefined;
    expect(reports.splice(0)).toEqual([expect.stringContaining(`cleaning up session session:${alice} failed`)]);
    const batches = points.filter(({ blobs }) => blobs[2] === "cleanup_batch");
    const failed = batches.reduce((sum, { doubles }) => sum + doubles[4]!, 0);
    expect(failed).toBe(1);
    expect((await api.session(alice)).status).toBe(404);
    expect((await registry("a"))!.subscribers).toEqual([alice]);
    expect(await registry("b")).toBeUndefined();
    pass(10_000);
    await sweep();
    expect(await registry("a")).toBeUndefined();
  });

  it("the cleanup works from the store alone, after a restart too", async () => {
    const { api, pass, sweep, restart, points, registry } = await stage(engine);
    await api.create("s");
    await subscribers(api, "s", 3);
    await restart();
    pass(LATEST_MS);
    await sweep();
    expect(typesOf(points).filter((type) => type === "session_expire")).toHaveLength(3);
    expect(await registry("s")).toBeUndefined();
  });
});
