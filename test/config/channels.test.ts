import { withDefaults } from "@sluice/server";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../../packages/server/src/config/load.ts";
import { ConfigError } from "../../packages/server/src/config/problem.ts";

function problemsOf(work: () => unknown): readonly string[] {
  try {
    work();
  } catch (fault) {
    if (fault instanceof ConfigError) return fault.problems;
    throw fault;
  }
  return [];
}

describe("the limits of channels", () => {
  it("are ordinary settings", () => {
    const env = { SLUICE_CHANNEL_RATE: "50", SLUICE_CHANNEL_IDLE_MS: "1000" };
    const { settings } = loadSettings({ flags: [{ flag: "--set", text: "channel.rate=60" }], env });
    expect(settings.channel).toMatchObject({ rate: 60, idleMs: 1_000, bodyBytes: 16_384, messages: 1_200 });
  });

  it("can differ in a project, and for some channels of it; from a variable, as JSON", () => {
    const limits = { rate: 50, filters: { "vip/#": { rate: 100, messages: 5_000 } } };
    const { settings } = loadSettings({ flags: [], env: { SLUICE_CHANNELS_OF_shop: JSON.stringify(limits) } });
    expect(settings.projects.shop?.channel).toEqual(limits);
    expect(withDefaults({ projects: { shop: { channel: limits } } }).projects.shop?.channel).toEqual(limits);
  });

  it("are refused with the name of the setting when they are malformed", () => {
    for (const channel of [
      { rate: 0 },
      { rate: "50" },
      { rat: 50 },
      { filters: { "a/#/b": {} } },
      { filters: { "": {} } },
      { filters: { a: { rate: -1 } } },
      { filters: { a: { filters: {} } } },
    ]) {
      const [problem, ...more] = problemsOf(() => withDefaults({ projects: { shop: { channel: channel as never } } }));
      expect(problem, JSON.stringify(channel)).toContain("projects.shop.channel");
      expect(more).toEqual([]);
    }
    const [problem] = problemsOf(() => loadSettings({ flags: [], env: { SLUICE_CHANNELS_OF_shop: "50" } }));
    expect(problem).toContain("projects.shop.channel (from the variable SLUICE_CHANNELS_OF_shop)");
  });

  it("do not count as keys of a project", () => {
    const { auth, projects } = withDefaults({ projects: { shop: { channel: { rate: 1 } } } });
    expect(auth.off).toBe(false);
    expect(projects.shop?.secrets).toBeUndefined();
  });
});
