/**
 * One run: a world, a storage, a host, a network and a scenario from one seed. seeds.ts calls it and gets the violations,
 * and the full log on request.
 *
 * Invariants: everything that a run does follows from its seed.
 */
import { Host } from "./host.ts";
import { type Door, Network } from "./network.ts";
import type { Random } from "./random.ts";
import type { Play, Scenario } from "./scenario.ts";
import type { OpenStorage } from "./storage.ts";
import { Trouble } from "./trouble.ts";
import { SimWorld } from "./world.ts";

/** More steps than any run needs; a run that does not end is a defect. */
const MAX_STEPS = 300_000;
/** How long after the last client has left its state may remain. */
const SETTLE_MS = 200;

export interface Outcome {
  readonly violations: readonly string[];
  readonly steps: number;
  readonly elapsedMs: number;
  readonly boots: number;
  /** [] unless asked for. */
  readonly log: readonly string[];
  readonly story: readonly string[];
}

export async function simulate(
  scenario: Scenario,
  openStorage: OpenStorage,
  seed: number,
  keepsLog = false,
): Promise<Outcome> {
  const log: string[] = [];
  const world = new SimWorld(seed, keepsLog ? (line) => void log.push(line) : undefined);
  const storage = openStorage(world);
  const settings = scenario.settings(world.random.branch());
  const hosts = Array.from({ length: scenario.nodes ?? 1 }, () => new Host(world, storage, settings));
  const host = hosts[0]!;
  const door = hosts.length === 1 ? host : doorOf(hosts, world.random.branch());
  const network = new Network(world, world.random.branch(), door);
  const play = scenario.begin({ world, host, hosts, network, random: world.random.branch() });
  const violations: string[] = [];

  const live = async (): Promise<void> => {
    for (const one of hosts) await startUntilUp(one, world);
    const troubles = hosts.map((one) => new Trouble(world, one, world.random.branch(), scenario.maxBlows));
    await play.act();
    network.calm();
    storage.calm();
    for (const trouble of troubles) await trouble.stop();
    for (const after of [async () => {}, () => play.audit()]) {
      await after();
      await world.quiet();
      await world.sleep(SETTLE_MS);
      violations.push(...hosts.flatMap(leftovers));
    }
  };
  violations.push(...(await runToEnd(world, live)));
  const faults = hosts.flatMap((one) => one.faults);
  violations.push(...faults.map((fault) => `[fault] ${fault}`), ...judge(play));
  const { step: steps, elapsedMs } = world;
  const boots = hosts.reduce((sum, one) => sum + one.boots, 0);
  return { violations, steps, elapsedMs, boots, log, story: violations.length > 0 ? play.tell() : [] };
}

/** A drive may be full for a moment when a server starts for the first time; then it starts again. */
async function startUntilUp(host: Host, world: SimWorld): Promise<void> {
  for (;;) {
    await host.start();
    if (host.isUp) return;
    await world.sleep(10);
  }
}

/** A connection goes to a random server; when that one is down, to the next. */
function doorOf(hosts: readonly Host[], random: Random): Door {
  return {
    accept(exchange) {
      const first = random.below(hosts.length);
      return hosts.some((_, i) => hosts[(first + i) % hosts.length]!.accept(exchange));
    },
  };
}

/** Checks that live readers leave no state behind. */
function leftovers({ app, watches }: Host): string[] {
  const { readers, watchedStreams } = app!.tail;
  if (readers === 0 && watchedStreams === 0 && watches === 0) return [];
  const left = `${readers} readers, ${watchedStreams} streams that are read, ${watches} watches`;
  return [`[waiters] all clients have gone, and there are ${left}`];
}

/** Returns the fault that broke the run itself. */
async function runToEnd(world: SimWorld, live: () => Promise<void>): Promise<string[]> {
  const broken: string[] = [];
  let isOver = false;
  const note = (what: string) => (fault: unknown) => {
    broken.push(`[${what}] ${fault instanceof Error ? fault.stack : String(fault)}`);
    isOver = true;
  };
  const unhandled = note("unhandled");
  process.on("unhandledRejection", unhandled);
  try {
    live().then(() => {
      isOver = true;
    }, note("broken"));
    await world.run(() => isOver, MAX_STEPS).catch(note("stuck"));
  } finally {
    process.off("unhandledRejection", unhandled);
  }
  return broken;
}

function judge(play: Play): string[] {
  try {
    return play.violations();
  } catch (fault) {
    return [`[checker] ${fault instanceof Error ? fault.stack : String(fault)}`];
  }
}
