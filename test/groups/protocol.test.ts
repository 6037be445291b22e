import { describe, expect, test } from "vitest";
import { GROUP_TIMERS } from "../../packages/server/src/groups/defaults.ts";
import { CALM, ProtocolWorld, type TestMember } from "./protocol-world.ts";

const { SLUICE_SEED, SLUICE_DEEP } = process.env;
const SEEDS = SLUICE_DEEP === "1" ? 20_000 : 300;

/** Runs the play for many seeds; a failure names its seed. */
function seeds(name: string, play: (world: ProtocolWorld) => void, count = SEEDS): void {
  test(`${name} (${count} seeds)`, () => {
    const [first, last] = SLUICE_SEED === undefined ? [1, count] : [Number(SLUICE_SEED), Number(SLUICE_SEED)];
    for (let seed = first; seed <= last; seed++) {
      const world = new ProtocolWorld(seed);
      play(world);
      if (world.ledger.violations.length === 0) continue;
      const shown = [...world.ledger.violations.slice(0, 5), ...world.ledger.story.slice(-100)];
      throw new Error(`SLUICE_SEED=${seed} broke a promise:\n${shown.join("\n")}`);
    }
  });
}

/** Ends all trouble; every message must then be processed, and the streams be spread evenly. */
function settle(world: ProtocolWorld): void {
  world.weather = CALM;
  for (const leader of world.leaders) leader.isCutOff = false;
  if (world.members.size === 0) world.join("last");
  world.run(30_000);
  world.audit();
  const counts = [...world.members].map(({ open }) => open.size);
  if (Math.max(...counts) - Math.min(...counts) > 1) world.ledger.object(`streams are held as ${counts}`);
}

function publishAll(world: ProtocolWorld, streams: number, most = 20): void {
  for (let i = 0; i < streams; i++) world.publish(`s${i}`, world.random.between(1, most));
}

function anyMember({ members, random }: ProtocolWorld): TestMember | undefined {
  return members.size === 0 ? undefined : random.pick([...members]);
}

describe("In a network that loses, doubles and reorders every message", () => {
  seeds("members that come, leave and die process every message in order", (world) => {
    const { random } = world;
    publishAll(world, random.between(1, 6));
    for (let round = random.between(3, 20); round > 0; round--) {
      const act = random.weighted({ join: 4, leave: 2, unsubscribe: 2, die: 1, publish: 4, close: 1, delete: 1, leader: 1 });
      const path = world.logs.size === 0 ? undefined : random.pick([...world.logs.keys()]);
      if (act === "join") world.join(`m${random.below(4)}`, { stalls: random.pick([0, 0.1]) });
      else if (act === "publish") world.publish(`s${random.below(8)}`, 1);
      else if (act === "close" && path !== undefined) world.close(path);
      else if (act === "delete" && path !== undefined) world.delete(path);
      else if (act === "leader" && world.owner !== undefined) {
        const how = random.weighted({ dies: 1, "is cut off": 1, leaves: 1 });
        if (how === "dies") world.owner.isDead = true;
        else if (how === "leaves") world.owner.release();
        else world.owner.isCutOff = true;
      } else if (act === "leave") anyMember(world)?.step({ type: "on_disconnect" });
      else if (act === "unsubscribe") anyMember(world)?.step({ type: "on_unsubscribe" });
      else if (act === "die") anyMember(world)?.die();
      world.run(random.between(0, random.pick([50, 1_000, 8_000])));
    }
    settle(world);
  });
});
