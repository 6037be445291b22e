/**
 * The clients that change more than messages: they close, delete, create anew and fork streams, and look at them in between.
 * The streams scenario starts them.
 */
import type { Append } from "../../history.ts";
import type { Cast, StreamPlan } from "./cast.ts";

export async function createOften(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const client = cast.client("creator");
  for (let round = 0; round < rounds; round++) {
    await cast.create(client, plan, cast.random.chance(0.03));
    await cast.pause(round === 0 ? 100 : 1_500);
  }
}

/** Deletes now and then, and often creates the stream again at once. */
export async function deleteNowAndThen(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const client = cast.client("deleter");
  for (let round = 0; round < rounds; round++) {
    await cast.pause(2_500);
    await client.delete(plan.path);
    if (cast.random.chance(0.3)) await cast.pause(500);
    if (cast.random.chance(0.7)) await cast.create(client, plan);
  }
}

/** Closes with or without a last message. */
export async function closeSomeDay(cast: Cast, plan: StreamPlan): Promise<void> {
  const client = cast.client("closer");
  await cast.pause(6_000);
  for (let attempt = 0; attempt < 3; attempt++) {
    const items = cast.random.chance(0.5) ? cast.items(plan) : [];
    const op: Append = { kind: "append", path: plan.path, ids: items.map(({ id }) => id), close: true };
    const result = cast.note(plan.path, await client.append(op, items));
    if (result.kind === "done") return;
    await cast.pause(1_000);
  }
}

export async function lookAround(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const client = cast.client("looker");
  for (let round = 0; round < rounds; round++) {
    if (cast.random.chance(0.7)) cast.note(plan.path, await client.head(plan.path));
    else await client.list();
    await cast.pause(600);
  }
}

/** The time within which all clients arrive. */
const CROWD_MS = 12;

/**
 * Several clients want contrary things of one stream at the same moment: create, delete, write, read; of a fork also its
 * source, which is deleted and created anew. Some order of the calls must explain the result.
 */
export async function quarrel(cast: Cast, plan: StreamPlan, rounds: number): Promise<void> {
  const { random } = cast;
  const client = cast.client("quarreller");
  const recreate = async (target: StreamPlan) => {
    await client.delete(target.path);
    await cast.create(client, target);
  };
  const append = async () => {
    const items = cast.items(plan, 2);
    const op: Append = { kind: "append", path: plan.path, ids: items.map(({ id }) => id), close: random.chance(0.1) };
    cast.note(plan.path, await client.append(op, items));
  };
  const read = async () => {
    const from = cast.someOffset(plan.path) ?? "-1";
    await client.read({ kind: "read", path: plan.path, from, mode: "catch-up", format: "raw" });
  };
  for (let round = 0; round < rounds; round++) {
    await cast.pause(1_500);
    const wishes: (() => Promise<unknown>)[] = [
      () => recreate(plan),
      () => cast.create(client, plan),
      () => cast.create(client, plan),
      append,
      read,
    ];
    if (plan.sources) wishes.push(() => recreate(cast.planOf(random.pick(plan.sources!))));
    await Promise.all(wishes.map((wish) => cast.pause(CROWD_MS).then(wish)));
  }
}
