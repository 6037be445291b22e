/**
 * Random streams, answers, delays and times on one subscription, against what was delivered and answered. Every seed is a run of its
 * own; a failing one prints its seed.
 *
 * Invariants that are checked: an acknowledged message never comes again. Of an ordering key, a message comes only when every
 * earlier one is acknowledged or out on the same stream. In the end everything is delivered and acknowledged.
 */
import { expect, it } from "vitest";
import type { Delivery } from "../../packages/server/src/pull/contract.ts";
import { describeOnMemory, type EngineName } from "../e2e/server.ts";
import { manualWorld } from "../support/world.ts";
import { type PullNode, pullNode } from "./pull-world.ts";

const SEEDS = process.env.SLUICE_DEEP === "1" ? 200 : 12;
/** On engines whose every call takes real time. */
const FEW_SEEDS = 10;
const STEPS = 60;
/** A lease may be noticed as ended that much late, because the test moves its clock in steps. */
const LATE_MS = 2_000;

interface Out {
  readonly delivery: Delivery;
  readonly stream: number;
}

class Model {
  /** Message numbers by ordering key, in the order of publishing. */
  readonly keys = new Map<string, string[]>();
  readonly acked = new Set<string>();
  /** By message: its last delivery, unless it was given back since. */
  readonly out = new Map<string, Out>();
  published = 0;

  constructor(readonly isOrdered: boolean) {}

  delivered(stream: number, delivery: Delivery, now: number): void {
    const text = Buffer.from(delivery.data).toString();
    expect(this.acked.has(text), `${text} was acknowledged and came again`).toBe(false);
    const key = this.isOrdered ? delivery.orderingKey : undefined;
    const earlier = key === undefined ? [] : this.keys.get(key)!;
    for (const one of earlier.slice(0, earlier.indexOf(text))) {
      if (this.acked.has(one)) continue;
      const before = this.out.get(one);
      expect(before, `${text} of ${key} came before ${one}`).toBeDefined();
      expect(before!.stream, `${text} of ${key} came on another stream than ${one}`).toBe(stream);
      expect(before!.delivery.deadlineAt, `${text} of ${key} came although ${one} had expired`).toBeGreaterThan(
        now - LATE_MS,
      );
    }
    this.out.set(text, { delivery, stream });
  }

  /** A message given back takes the later ones of its key with it. */
  gaveBack(text: string, key: string | undefined): void {
    const later = key === undefined || !this.isOrdered ? [text] : this.keys.get(key)!;
    for (const one of later.slice(later.indexOf(text))) this.out.delete(one);
  }
}

async function run(engine: EngineName, seed: number, isOrdered: boolean): Promise<void> {
  const { random } = manualWorld(seed);
  const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(random() * list.length)];
  const node = await pullNode(engine);
  const model = new Model(isOrdered);
  await node.topic();
  await node.subscribe({ isOrdered, ackDeadlineMs: 10_000 });
  let streams = 0;
  const open = async () => {
    const stream = streams++;
    const limits = { maxMessages: 1 + Math.floor(random() * 8) };
    const deliver = (all: readonly Delivery[]) => {
      for (const one of all) model.delivered(stream, one, node.world.now());
    };
    return node.open(limits, { deliver });
  };
  let opened = [await open(), await open()];
  for (let step = 0; step < STEPS; step++) {
    const dice = random();
    if (dice < 0.35) await publish(node, model, pick);
    else if (dice < 0.6) await answer(node, model, pick([...model.out.values()]), "ack");
    else if (dice < 0.75) await answer(node, model, pick([...model.out.values()]), "nack");
    else if (dice < 0.85) await node.pass(Math.floor(random() * 12_000));
    else if (dice < 0.9) {
      opened.shift()?.close();
      opened = [...opened, await open()];
    } else await node.settled();
  }
  for (let i = 0; i < 400 && model.acked.size < model.published; i++) {
    await node.settled();
    for (const out of [...model.out.values()]) await answer(node, model, out, "ack");
    if (model.out.size === 0) await node.pass(1_000);
  }
  expect(model.acked.size).toBe(model.published);
  await node.pass(11_000);
}

async function publish(node: PullNode, model: Model, pick: <T>(list: readonly T[]) => T | undefined): Promise<void> {
  const texts = Array.from({ length: 3 }, () => String(model.published++));
  const messages = texts.map((text) => {
    const orderingKey = pick([undefined, "x", "y", "z"]);
    if (orderingKey !== undefined) model.keys.set(orderingKey, [...(model.keys.get(orderingKey) ?? []), text]);
    return { data: Buffer.from(text), orderingKey };
  });
  await node.publish(...messages);
}

async function answer(node: PullNode, model: Model, out: Out | undefined, how: "ack" | "nack"): Promise<void> {
  if (out === undefined) return;
  const { delivery } = out;
  const text = Buffer.from(delivery.data).toString();
  const isOver = delivery.deadlineAt <= node.world.now();
  if (how === "ack") {
    model.out.delete(text);
    model.acked.add(text);
    expect(await node.ack(delivery)).toEqual(["done"]);
    return;
  }
  // The service gives back before the call returns, and may deliver again at once.
  if (!isOver) model.gaveBack(text, delivery.orderingKey);
  await node.nack(undefined, delivery);
}

describeOnMemory("Pull in a random run", (engine) => {
  const seeds = Array.from({ length: engine === "memory" ? SEEDS : FEW_SEEDS }, (_, i) => i + 1);
  it.each(seeds)("keeps its promises with ordering (seed %i)", (seed) => run(engine, seed, true));
  it.each(seeds)("keeps its promises without ordering (seed %i)", (seed) => run(engine, seed, false));
});
