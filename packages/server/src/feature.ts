/**
 * The descriptor of a feature: all that compose and the doors read of its folder. Each folder has a `feature.ts` that
 * builds its service from the kernel and returns this.
 *
 * Invariants: no file outside the folder lists the feature's routes, kinds, settings or metrics again, except
 * test/auth/matrix.ts, which is an independent witness.
 */
import type { Audience } from "./core/audience.ts";
import type { Metric } from "./core/metric.ts";
import type { Refusal } from "./core/refusal.ts";
import type { AddressName, Route } from "./core/route.ts";
import type { World } from "./core/world.ts";
import type { Engine, Entity } from "./engine/contract.ts";
import type { Keepers } from "./engine/keeper.ts";
import type { SweptKind } from "./engine/sweeper.ts";

/** A kind whose entities are swept one by one. */
export function kindOf(kind: string, sweep: (e: Entity) => Promise<unknown>): SweptKind {
  return { kind, batch: 1, sweep: ([e]) => sweep(e!) };
}

/** What every feature is built on. */
export interface Kernel {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly world: World;
  /** The clients that wait for messages on this node. */
  readonly audience: Audience;
  /** Gets faults whose details no client sees. */
  readonly report: (what: string, fault: unknown) => void;
}

export interface Feature {
  /** The noun, as a heading: the OpenAPI document groups routes by it. */
  readonly title: string;
  readonly kinds?: readonly SweptKind[];
  readonly routes: readonly Route[];
  /** The names in braces that this feature's addresses add. */
  readonly names?: Readonly<Record<string, AddressName>>;
  /** Further members of a refusal's problem, for clients of a published protocol that expect them. */
  readonly problemMembers?: (refusal: Refusal) => object;
  readonly metrics?: readonly Metric[];
  start?(): void;
  /** The server is about to stop: end the requests that wait, so that clients reconnect elsewhere. */
  drain?(): void;
  stop?(): Promise<void> | void;
}
