import { describe, expect, test } from "vitest";
import type { Refusal } from "./refusal.ts";
import { SharedLimit } from "./shared-limit.ts";

const limitOf = (max: number, sharePercent?: number) =>
  new SharedLimit({ setting: "tail.readers", noun: "readers", max, code: "too-many-waiters", sharePercent });

function refusalOf(limit: SharedLimit, project: string, amount?: number): Refusal | undefined {
  try {
    limit.demandRoom(project, amount);
    return undefined;
  } catch (refusal) {
    return refusal as Refusal;
  }
}

describe("a limit that projects share", () => {
  test("leaves room for the others when one project has used up its share, and tells that project so", () => {
    const limit = limitOf(10, 50);
    limit.take("greedy", 5);
    const refusal = refusalOf(limit, "greedy");
    expect(refusal).toMatchObject({ code: "project-limit", retryAfterMs: 1_000 });
    expect(refusal?.message).toMatch(/project greedy may have 5 readers .* share of tail\.readers \(10\)/);
    expect([limit.hasRoom("greedy"), limit.hasRoom("other", 5), limit.hasRoom("other", 6)]).toEqual([
      false,
      true,
      false,
    ]);
    limit.give("greedy");
    expect(refusalOf(limit, "greedy")).toBeUndefined();
    expect(refusalOf(limit, "greedy", 2)?.code).toBe("project-limit");
  });

  test("is all for a lone project by default, which is then told of the limit itself", () => {
    const limit = limitOf(3);
    limit.take("only", 3);
    expect(refusalOf(limit, "only")).toMatchObject({ code: "too-many-waiters" });
    expect(refusalOf(limit, "only")?.message).toContain("3 readers");
  });

  test("refuses every project when all of it is used", () => {
    const limit = limitOf(4, 50);
    limit.take("a", 2);
    limit.take("b", 2);
    expect(["a", "b", "c"].map((project) => refusalOf(limit, project)?.code)).toEqual([
      "project-limit",
      "project-limit",
      "too-many-waiters",
    ]);
    expect(limit.used).toBe(4);
  });

  test("gives each project at least one, however small it is", () => {
    const limit = limitOf(3, 1);
    expect([limit.hasRoom("a"), limit.hasRoom("a", 2)]).toEqual([true, false]);
  });

  test("counts stored work beyond the share, and refuses only what is new", () => {
    const limit = limitOf(4, 50);
    limit.take("a", 6);
    expect([limit.used, refusalOf(limit, "a")?.code, refusalOf(limit, "b")?.code]).toEqual([
      6,
      "project-limit",
      "too-many-waiters",
    ]);
    limit.give("a", 6);
    expect([limit.used, refusalOf(limit, "a")]).toEqual([0, undefined]);
  });
});
