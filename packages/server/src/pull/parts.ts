/** What the parts of the service of pull share: the kernel, streams, limits, and permission checks. */
import type { Access, Need } from "../core/action.ts";
import { Refusal } from "../core/refusal.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { Streams } from "../streams/service.ts";
import type { Listed, ListPage } from "./contract.ts";
import type { PullLimits } from "./defaults.ts";
import { META, metaTable, type PullerMeta, pullerEntity } from "./state.ts";

export interface PullParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly world: World;
  readonly streams: Streams;
  readonly limits: PullLimits;
}

/** Throws a Refusal unless the caller may do this, to this topic if one is named. */
export async function demand(access: Access, project: string, action: string, need: Need, stream?: string) {
  await access.demand({ action: `pull.${action}`, need, project, stream });
}

export function subscriptionNotFound(name: string): Refusal {
  return new Refusal("subscription-not-found", `there is no subscription ${JSON.stringify(name)}`);
}

/** A topic keeps messages for a bounded number of subscriptions and snapshots. */
export function tooManyHolds(topic: string): Refusal {
  const detail = `the topic ${JSON.stringify(topic)} keeps messages for as many subscriptions and snapshots as it may`;
  return new Refusal("too-many-subscriptions", detail);
}

/** Throws a Refusal if there is no such subscription. */
export async function metaOf({ engine }: PullParts, project: string, name: string): Promise<PullerMeta> {
  const { rows } = await engine.load(pullerEntity(project, name), [META]);
  if (rows[0] === undefined) throw subscriptionNotFound(name);
  return metaTable.decode(rows[0]);
}

/** One page of the entities of a kind; those that `look` has no answer for are left out. */
export async function listed<T>(
  { engine, limits }: PullParts,
  project: string,
  kind: string,
  { after = "", limit = limits.pageItems }: ListPage,
  look: (id: string) => Promise<T | undefined>,
): Promise<Listed<T>> {
  const items: T[] = [];
  const most = Math.max(1, Math.min(limit, limits.pageItems));
  for (let from = after; ; ) {
    const { ids, next } = await engine.list(project, kind, "", from, most);
    for (const id of ids) {
      const item = await look(id);
      if (item !== undefined) items.push(item);
      if (items.length === most) return { items, next: id === ids.at(-1) && next === undefined ? undefined : id };
    }
    if (next === undefined) return { items, next };
    from = next;
  }
}
