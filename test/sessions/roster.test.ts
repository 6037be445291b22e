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
    const roster = new Roster(watched, undefined as never, limits, "default", "s");
    await Promise.all([roster.look(), roster.look()]);
    expect([...roster.members.keys()]).toEqual(sessions);
    seen.length = 0;
    roster.doubt();
    await Promise.all([roster.look(), roster.look()]);
    expect(seen.length).toBeGreaterThan(8);
    for (const members of seen) expect(members).toEqual(sessions);
  });
});
