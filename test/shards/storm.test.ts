/** Many clients make, use, close and delete the same topic at once. Afterwards the topic is whole or gone. */
import { expect, it } from "vitest";
import { describeOnEngines } from "../e2e/server.ts";
import { openStage } from "../e2e/stage.ts";
import type { Answer } from "../sessions/api.ts";
import { Random } from "../sim/random.ts";
import { askOverSocket } from "../support/ask.ts";
import { stored, Topic } from "./topic.ts";

const CLIENTS = 6;
const CALLS = 25;
/** The allowed statuses of each call; any other, a 500 above all, is a defect. */
const EXPECTED: Readonly<Record<string, readonly number[]>> = {
  put: [200, 201, 409],
  post: [200, 204, 404, 409],
  close: [204, 404],
  delete: [204, 404],
};

describeOnEngines("A topic under concurrent clients", (engine) => {
  it.each([1, 2, 3])("is whole or gone in the end (seed %i)", async (seed) => {
    const on = await openStage(engine);
    const dice = new Random(seed);
    // Over sockets, whose requests interleave as those of real clients do.
    const topic = new Topic(on.url, "orders", 3, askOverSocket);
    const calls: Readonly<Record<string, () => Promise<Answer>>> = {
      put: () => topic.put(),
      post: () => topic.post(dice.below(100), { "Message-Key": `k${dice.below(9)}` }),
      close: () => topic.close(),
      delete: () => topic.delete(),
    };
    const client = async () => {
      for (let i = 0; i < CALLS; i++) {
        const name = dice.pick(["put", "put", "put", "post", "post", "post", "post", "close", "delete"]);
        const { status, text } = await calls[name]!();
        expect(EXPECTED[name], `${name}: ${text}`).toContain(status);
        if (dice.chance(0.1)) on.pass(dice.below(4_000));
        if (dice.chance(0.1)) await on.sweep();
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    for (let i = 0; i < 3; i++) {
      on.pass(10_500);
      await on.sweep();
    }
    const head = await topic.head();
    expect(await stored(on.app.streams)).toEqual(head.status === 200 ? [topic.path, ...topic.paths] : []);
    if (head.status === 200) {
      const isClosed = head.headers.get("stream-closed") === "true";
      expect(await topic.closed()).toEqual([isClosed, isClosed, isClosed]);
    }
    expect(await on.tracked()).toEqual([]);
  });
});
