import { describe, expect, it } from "vitest";
import { codeOf } from "../../../../test/support/refusal-code.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { Refusal } from "../core/refusal.ts";
import { Keepers } from "../engine/keeper.ts";
import { openMemory } from "../engine/memory/memory.ts";
import { CHANNEL_LIMITS } from "./defaults.ts";
import { Channels } from "./service.ts";

function channels(limits: Partial<typeof CHANNEL_LIMITS> = {}, world = manualWorld(1)): Channels {
  const engine = openMemory({ world });
  return new Channels(engine, new Keepers(engine, world.soon), () => ({ ...CHANNEL_LIMITS, ...limits }));
}

const START = { phase: "START", sequence: 0, payload: "1", messageId: undefined } as const;

describe("a publish is refused, whichever door asks,", () => {
  it("above the size of a publish, before it counts against the rate and before it is parsed", async () => {
    const on = channels({ bodyBytes: 10, rate: 1 });
    let parsed = 0;
    const messages = () => {
      parsed++;
      return [START];
    };
    expect(await codeOf(() => on.publish("p", "c", { bytes: 11, messages }))).toBe("too-large");
    expect(parsed).toBe(0);
    expect(await codeOf(() => on.publish("p", "c", { bytes: 10, messages }))).toBe("taken");
    expect(on.counters).toMatchObject({ tooLarge: 1, publishes: 1 });
  });

  it("above the rate of the channel, before it is parsed", async () => {
    const on = channels({ rate: 2 });
    const malformed = () => {
      throw new Refusal("bad-body", "no");
    };
    const publish = { bytes: 1, messages: malformed };
    expect(await codeOf(() => on.publish("p", "c", publish))).toBe("bad-body");
    expect(await codeOf(() => on.publish("p", "c", publish))).toBe("bad-body");
    expect(await codeOf(() => on.publish("p", "c", publish))).toBe("rate-limited");
    expect(on.counters.limited).toBe(1);
  });
});

it("a channel that has expired is absent to every reader, also before the sweep removes it", async () => {
  const world = manualWorld(1);
  const on = channels({}, world);
  const messages = [START, { ...START, phase: "END", sequence: 1 } as const];
  const published = await on.publish("p", "c", { bytes: 1, messages: () => messages });
  if (published.kind !== "published") throw new Error(published.kind);
  const { position } = published;
  const starts = [undefined, { ...position, seq: 1 }, position];
  const read = async () =>
    (await Promise.all(starts.map((at) => on.read("p", "c", at, 100, CHANNEL_LIMITS)))).map(({ kind }) => kind);
  expect(await read()).toEqual(["page", "page", "page"]);
  world.advance(CHANNEL_LIMITS.ttlMs);
  expect(await read()).toEqual(["absent", "absent", "absent"]);
});
