/**
 * Chaos from outside: a mixed load on a real server on disk that is killed again and again, under load and while it starts. The
 * checkers know only what HTTP told the clients. A failure names its seed:
 *
 *   SLUICE_SEED=7 npx vitest run test/chaos      that seed alone; kills and answers fall differently, the plan does not
 *   SLUICE_CHAOS_MS=600000                       so long instead
 */
import { expect, it, onTestFinished } from "vitest";
import { Random } from "../sim/random.ts";
import { sleep } from "../support/eventually.ts";
import { dirForTest } from "../support/sluice-process.ts";
import { follower, publisher, subscriber, webhook } from "./actors-readers.ts";
import { appender, closer, forker, type NewActor, producer, recreator, trimmed } from "./actors-streams.ts";
import { Victim } from "./victim.ts";
import { Wire } from "./wire.ts";

const { SLUICE_SEED, SLUICE_CHAOS_MS, SLUICE_DEEP } = process.env;
const DURATION_MS = Number(SLUICE_CHAOS_MS ?? (SLUICE_DEEP === "1" ? 600_000 : 15_000));
const SEEDS = SLUICE_SEED !== undefined ? [Number(SLUICE_SEED)] : SLUICE_DEEP === "1" ? [1, 2, 3, 4, 5] : [1];
/** Between two steps of an actor, so that the load leaves room for others on the machine. */
const PAUSE_MS = 15;
/** On a busy machine, where a start takes seconds, the run lasts until there were this many. */
const MIN_KILLS = 4;
/** How many answers there are between a start and the next kill. */
const MIN_ANSWERS = 20;
const MAX_ANSWERS = 1_000;

const ACTORS: Readonly<Record<string, NewActor>> = {
  append: appender,
  "append-2": appender,
  produce: producer,
  "produce-2": producer,
  trim: trimmed,
  fork: forker,
  recreate: recreator,
  close: closer,
  follow: follower("append"),
  "follow-2": follower("produce"),
  publish: publisher,
  subscribe: subscriber(["append-2", "produce-2"]),
  wake: webhook(onTestFinished),
};

it.each(SEEDS)(
  "nothing acknowledged is lost, repeated or reordered (seed %i)",
  async (seed) => {
    const random = new Random(seed);
    const victim = await Victim.open(dirForTest(), onTestFinished);
    const wire = new Wire(victim.url);
    const actors = [];
    for (const [name, make] of Object.entries(ACTORS)) actors.push(await make(wire, random.branch(), name));

    let isOver = false;
    const faults: string[] = [];
    const working = actors.map(async ({ step }) => {
      while (!isOver && faults.length === 0) {
        await step().catch((fault: Error) => faults.push(fault.stack ?? fault.message));
        await sleep(PAUSE_MS);
      }
    });
    const plan = random.branch();
    const endMs = Date.now() + DURATION_MS;
    while ((Date.now() < endMs || victim.kills < MIN_KILLS) && faults.length === 0) {
      const wanted = wire.answers + plan.between(MIN_ANSWERS, MAX_ANSWERS);
      while (wire.answers < wanted && faults.length === 0) await sleep(5);
      await victim.kill(plan);
    }
    isOver = true;
    await Promise.all(working);
    expect(faults).toEqual([]);
    expect((await Promise.all(actors.map((actor) => actor.findings()))).flat()).toEqual([]);
    console.log(
      `chaos, seed ${seed}: ${victim.kills} kills, ${victim.killsDuringStart} more during starts, ${wire.answers} answers, ${wire.unanswered} requests without one`,
    );
  },
  DURATION_MS + 240_000,
);
