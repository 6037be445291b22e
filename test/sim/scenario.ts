/**
 * The interface between a scenario and the simulation: it draws the shape of a run, plays its clients, audits the result
 * when everything is quiet, and judges. A feature adds a file to scenarios/ and a test that passes it to `describeSeeds`.
 */
import type { Host, HostSettings } from "./host.ts";
import type { Network } from "./network.ts";
import type { Random } from "./random.ts";
import type { SimWorld } from "./world.ts";

export interface Stage {
  readonly world: SimWorld;
  /** For the actions of clients. */
  readonly random: Random;
  readonly network: Network;
  readonly host: Host;
  /** All servers, where several serve. */
  readonly hosts: readonly Host[];
}

export interface Scenario {
  readonly name: string;
  /** Limits small enough for a run to reach. */
  settings(random: Random): HostSettings;
  /** How often its server dies or restarts at most; without it, for as long as its clients are at work. */
  readonly maxBlows?: number | undefined;
  /** How many servers there are; more than one need a shared storage. */
  readonly nodes?: number | undefined;
  begin(stage: Stage): Play;
}

/** One run of a scenario. */
export interface Play {
  /** Starts the clients; resolves when the last one has finished. The server may die at any moment meanwhile. */
  act(): Promise<void>;
  /** Checks the final state without further faults, then leaves. */
  audit(): Promise<void>;
  /** Broken promises, one line each. */
  violations(): string[];
  /** Details for the developer that debugs a failed seed. */
  tell(): string[];
}
