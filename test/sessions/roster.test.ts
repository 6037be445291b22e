import { expect, it } from "vitest";
import { Roster } from "../../packages/server/src/sessions/roster.ts";
import { describeAloneAndShared } from "../e2e/server.ts";
import { stage, subscribers } from "./stage.ts";

describeAloneAndShared("A registry that is read again", (engine) => {
  it("a registry that is being read again shows all of its subscribers meanwhile", async () => {
    const { api, engine: store } = await stage(engine);
    await api.create("s");
    const sessions = await subscribers(api, "s", 5);
    const seen: string[][] = [];
    const watched = Object.create(store, {
      rows: {
        value: async (...args: Parameters<typeof store.rows>) => {
          seen.push([...roster.members.keys()]);
          const rows = await store.rows(...args);
          seen.push([...roster.members.keys()]);
          return rows;
        },
      },
    });
    const limits = { pageRows: 2, roundBytes: 1_000 };
    const roster = new Roster(watched, undefined as never, limits, { soon: setImmediate }, "default", "s");
    await Promise.all([roster.look(), roster.look()]);
    expect([...roster.members.keys()]).toEqual(sessions);
    seen.length = 0;
    roster.doubt();
    await Promise.all([roster.look(), roster.look()]);
    expect(seen.length).toBeGreaterThan(8);
    for (const members of seen) expect(members).toEqual(sessions);
  });

  it("is read in many turns, and in one if a session subscribes meanwhile", async () => {
    const { api, engine: store } = await stage(engine);
    await api.create("s");
    const sessions = await subscribers(api, "s", 5);
    const pageRows = 2;
    const turnsOf = async (meanwhile: (roster: Roster) => void) => {
      let turns = 0;
      const soon = (task: () => void) => {
        turns++;
        meanwhile(roster);
        setImmediate(task);
      };
      const roster = new Roster(store, undefined as never, { pageRows, roundBytes: 1_000 }, { soon }, "default", "s");
      await roster.look();
      expect([...roster.members.keys()]).toEqual(sessions);
      return turns;
    };
    expect(await turnsOf(() => undefined)).toBe(2);
    expect(await turnsOf((roster) => roster.doubt())).toBe(2);
  });
});
