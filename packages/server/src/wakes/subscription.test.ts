import { expect, it } from "vitest";
import { WAKE_LIMITS } from "./defaults.ts";
import type { Meta } from "./state.ts";
import { Subscription } from "./subscription.ts";

const META = { incarnation: "i", config: { type: "webhook", pattern: "events/*" } } as unknown as Meta;

/** What a subscription still has to store after these events: `+` a stream came, `-` it went, `!` it was created anew. */
function heard(...events: readonly string[]) {
  const subscription = new Subscription("p", "s", META, { ...WAKE_LIMITS, queuedNotes: 2 });
  subscription.isUnsure = false;
  for (const event of events) subscription.hear(event.slice(1), event[0] !== "+", event[0] !== "-");
  const { toLink, toUnlink, isUnsure } = subscription;
  return { link: [...toLink], unlink: [...toUnlink], isUnsure };
}

it.each([
  ["a stream that comes is linked", ["+events/a"], ["events/a"], []],
  ["a stream that does not match is not linked", ["+others/a"], [], []],
  ["a stream that comes and goes is only unlinked", ["+events/a", "-events/a"], [], ["events/a"]],
  ["a stream that is created anew is unlinked and linked", ["!events/a"], ["events/a"], ["events/a"]],
])("%s", (_, events, link, unlink) => {
  expect(heard(...events)).toEqual({ link, unlink, isUnsure: false });
});

it("more events than are kept make the subscription look at every stream again", () => {
  expect(heard("+events/a", "-events/b", "+events/c")).toEqual({ link: [], unlink: [], isUnsure: true });
});

it("a step that fails holds up no later step", async () => {
  const subscription = new Subscription("p", "s", META);
  const done: string[] = [];
  const failing = subscription.serially(async () => {
    done.push("first");
    throw new Error("no");
  });
  const later = subscription.serially(async () => void done.push("second"));
  await expect(failing).rejects.toThrow("no");
  await later;
  expect(done).toEqual(["first", "second"]);
});
