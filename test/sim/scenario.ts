/**
 * What a scenario is to the simulation: it draws the shape of a run, plays its clients, audits what is left when everything
 * is quiet, and judges. A feature adds a file to scenarios/ and a test that hands it to `describeSeeds`.
 */
import type { Host, HostSettings } from "./host.ts";
import type { Network } from "./network.ts";
import type { Random } from "./random.ts";
import type { SimWorld } from "./world.ts";

export interface Stage {
  readonly world: SimWorld;
  /** For what clients do. */
  readonly random: Random;
  readonly network: Network;
  readonly host: Host;
  /** All of them, where several serve. */
  readonly hosts: readonly Host[];
}

export interface Scenario {
  readonly name: string;
  /** Limits small enough to be met. */
  settings(random: Random): HostSettings;
  /** How often its server dies or restarts at most; without it, for as long as its clients are at work. */
  readonly maxBlows?: number | undefined;
  /** How many servers there are; more than one need a storage that they can share. */
  readonly nodes?: number | undefined;
  begin(stage: Stage): Play;
}

/** One run of a scenario. */
export interface Play {
  /** Starts the clients; resolves when the last one has done its part. The server may die at any moment of it. */
  act(): Promise<void>;
  /** Looks at everything while nothing fails any more, then leaves. */
  audit(): Promise<void>;
  /** What must not have happened: one line each. */
  violations(): string[];
  /** For whoever has to find out why. */
  tell(): string[];
}
