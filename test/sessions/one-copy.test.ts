/** The rule by which a session takes a copy: onto its predecessor, by the incarnation and the subscription it is meant for. */
import { expect, it } from "vitest";
import { Copy } from "../../packages/server/src/sessions/copy.ts";
import { describeOnEngines } from "../e2e/server.ts";
import type { Call } from "./core.ts";
import { type Stage, stage, subscribers } from "./stage.ts";

/** A session that follows `s` and was given nothing yet, and the copies of three publishes that it should have got. */
async function withThreeCopies(engine: Parameters<typeof stage>[0]) {
  const on = await stage(engine, { internal: { fanout: { retryMs: 1_000_000_000, maxRetryMs: 1_000_000_000 } } });
  await on.api.create("s");
  const [well, lacking] = (await subscribers(on.api, "s", 2)) as [string, string];
  on.core.fate = ({ method, id }) => (method === "deliver" && id === lacking ? "refused" : undefined);
  for (const i of [1, 2, 3]) await on.api.published("s", String(i));
  const calls = on.core.posts();
  const copies = calls.filter(({ id }) => id === well).map(({ copy }) => copy!);
  const meant = calls.find(({ id }) => id === lacking)!;
  on.core.fate = () => undefined;
  return { on, copies, meant };
}

/** Hands a copy to the session, as fan-out does. */
const give = async ({ core }: Stage, { project, id, to }: Call, copy: Copy, other: object = {}) =>
  (await core.deliver(project, id, copy, { ...to!, ...other })).kind;

describeOnEngines("A session takes a copy", (engine) => {
  it("only onto its predecessor: otherwise it says that something is missing, and takes nothing", async () => {
    const { on, copies, meant } = await withThreeCopies(engine);
    const [first, second, third] = copies as [Copy, Copy, Copy];
    expect(await give(on, meant, second)).toBe("lagging");
    expect(await give(on, meant, third)).toBe("lagging");
    expect(await on.api.messages(meant.id)).toEqual([]);
    for (const copy of [first, second, third]) expect(await give(on, meant, copy)).toBe("applied");
    expect(await on.api.messages(meant.id)).toEqual([1, 2, 3]);
  });

  it("once: at or past its end it is a duplicate", async () => {
    const { on, copies, meant } = await withThreeCopies(engine);
    const [first, second] = copies as [Copy, Copy, Copy];
    const kinds: string[] = [];
    for (const copy of [first, first, second, first, second]) kinds.push(await give(on, meant, copy));
    expect(kinds).toEqual(["applied", "duplicate", "applied", "duplicate", "duplicate"]);
    expect(await on.api.messages(meant.id)).toEqual([1, 2]);
  });

  it("and of one that overlaps what it lacks", async () => {
    const { on, copies, meant } = await withThreeCopies(engine);
    const [first, second, third] = copies as [Copy, Copy, Copy];
    expect(await give(on, meant, first)).toBe("applied");
    const logged = [first, second, third].flatMap((copy) => copy.logged);
    expect(
      await give(
        on,
        meant,
        new Copy({ stream: "s", contentType: "application/json", prev: first.prev, logged, fanoutSeq: 1 }),
      ),
    ).toBe("applied");
    expect(await on.api.messages(meant.id)).toEqual([1, 2, 3]);
  });

  it("that is meant for it: not one for an earlier session of its id, or an earlier subscription", async () => {
    const { on, copies, meant } = await withThreeCopies(engine);
    const [first] = copies as [Copy];
    expect(await give(on, meant, first, { incarnation: "0" })).toBe("stale");
    expect(await give(on, meant, first, { epoch: meant.to!.epoch + 1 })).toBe("stale");
    expect(await give(on, { ...meant, project: "other" }, first)).toBe("stale");
    await on.api.unsubscribe(meant.id, "s");
    expect(await give(on, meant, first)).toBe("stale");
    expect(await on.api.messages(meant.id)).toEqual([]);
  });
});
