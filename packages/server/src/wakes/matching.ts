/**
 * Which subscriptions follow a stream: patterns in a topic index, explicit streams by name, and the answers for recent
 * paths. In memory, over all subscriptions of this process. Called by the follower, the linker and the service.
 *
 * Invariants: a recent path costs one lookup, however many subscriptions exist. The limits on subscriptions and
 * explicit links bound the index; `rememberedPaths` bounds the answers.
 */
import { SharedLimit } from "../core/shared-limit.ts";
import { TopicIndex } from "../core/topic-index.ts";
import { WAKE_LIMITS, type WakeLimits } from "./defaults.ts";
import { isWakeStream } from "./state.ts";
import type { Subscription } from "./subscription.ts";

const NONE: readonly Subscription[] = [];

export class SubscriptionIndex {
  private readonly projects = new Map<string, ProjectIndex>();
  private readonly subscriptions: SharedLimit;
  private readonly links: SharedLimit;
  private readonly maxRemembered: number;

  constructor({ subscriptions, explicitLinks, rememberedPaths }: WakeLimits = WAKE_LIMITS, sharePercent?: number) {
    const limit = (setting: string, noun: string, max: number) =>
      new SharedLimit({ setting, noun, max, code: "overloaded", sharePercent });
    this.subscriptions = limit("wake.subscriptions", "wake subscriptions", subscriptions);
    this.links = limit("internal.wake.explicitLinks", "links by name", explicitLinks);
    this.maxRemembered = rememberedPaths;
  }

  get size(): number {
    return this.subscriptions.used;
  }

  get explicitLinks(): number {
    return this.links.used;
  }

  /** Throws a Refusal if there is no room for a new subscription of this project with so many explicit links. */
  demandRoom(project: string, explicit: number): void {
    this.subscriptions.demandRoom(project);
    this.demandLinks(project, explicit);
  }

  /** Throws a Refusal if there is no room for so many more explicit links of this project. */
  demandLinks(project: string, explicit: number): void {
    if (explicit > 0) this.links.demandRoom(project, explicit);
  }

  has(project: string): boolean {
    return this.projects.has(project);
  }

  get(project: string, id: string): Subscription | undefined {
    return this.projects.get(project)?.subscriptions.get(id);
  }

  *all(): Iterable<Subscription> {
    for (const { subscriptions } of this.projects.values()) yield* subscriptions.values();
  }

  /** Replaces an earlier subscription of the same id. */
  add(subscription: Subscription): void {
    const { project, id } = subscription;
    const earlier = this.get(project, id);
    if (earlier) this.remove(earlier);
    const index = this.projects.get(project) ?? new ProjectIndex(this.maxRemembered);
    this.projects.set(project, index);
    index.add(subscription);
    this.subscriptions.take(project);
    this.links.take(project, subscription.explicit.size);
  }

  remove(subscription: Subscription): void {
    const { project, id } = subscription;
    const index = this.projects.get(project);
    if (index?.subscriptions.get(id) !== subscription) return;
    subscription.stop();
    index.remove(subscription);
    this.subscriptions.give(project);
    this.links.give(project, subscription.explicit.size);
    if (index.subscriptions.size === 0) this.projects.delete(project);
  }

  /** Adds an explicit link of a subscription that is in the index. */
  link(subscription: Subscription, path: string): void {
    if (subscription.isStopped || subscription.explicit.has(path)) return;
    subscription.explicit.add(path);
    this.links.take(subscription.project);
    this.projects.get(subscription.project)?.linkExplicit(subscription, path);
  }

  unlink(subscription: Subscription, path: string): void {
    if (subscription.isStopped || !subscription.explicit.delete(path)) return;
    this.links.give(subscription.project);
    this.projects.get(subscription.project)?.unlinkExplicit(subscription, path);
  }

  /** The subscriptions that are linked to this stream, or match it. */
  match(project: string, path: string): readonly Subscription[] {
    return this.projects.get(project)?.match(path) ?? NONE;
  }

  /** The subscriptions whose wake events go into this stream. */
  writers(project: string, path: string): Iterable<Subscription> {
    return this.projects.get(project)?.byWakeStream.get(path) ?? NONE;
  }
}

class ProjectIndex {
  readonly subscriptions = new Map<string, Subscription>();
  readonly byWakeStream = new Map<string, Set<Subscription>>();
  private readonly patterns = new TopicIndex<Subscription>();
  private readonly byStream = new Map<string, Set<Subscription>>();
  private readonly remembered = new Map<string, readonly Subscription[]>();

  constructor(private readonly maxRemembered: number) {}

  add(subscription: Subscription): void {
    const { id, glob, explicit, config } = subscription;
    this.subscriptions.set(id, subscription);
    if (glob) this.patterns.add(glob.levels, subscription);
    for (const path of explicit) addTo(this.byStream, path, subscription);
    if (config.wakeStream !== undefined) addTo(this.byWakeStream, config.wakeStream, subscription);
    this.remembered.clear();
  }

  remove(subscription: Subscription): void {
    const { id, glob, explicit, config } = subscription;
    this.subscriptions.delete(id);
    if (glob) this.patterns.remove(glob.levels, subscription);
    for (const path of explicit) removeFrom(this.byStream, path, subscription);
    if (config.wakeStream !== undefined) removeFrom(this.byWakeStream, config.wakeStream, subscription);
    this.remembered.clear();
  }

  linkExplicit(subscription: Subscription, path: string): void {
    addTo(this.byStream, path, subscription);
    this.remembered.delete(path);
  }

  unlinkExplicit(subscription: Subscription, path: string): void {
    removeFrom(this.byStream, path, subscription);
    this.remembered.delete(path);
  }

  match(path: string): readonly Subscription[] {
    const known = this.remembered.get(path);
    if (known !== undefined) return known;
    const found = this.find(path);
    if (this.remembered.size >= this.maxRemembered) this.remembered.clear();
    this.remembered.set(path, found);
    return found;
  }

  private find(path: string): readonly Subscription[] {
    const found = new Set(this.byStream.get(path));
    for (const subscription of this.patterns.match(path)) {
      if (!isWakeStream(subscription.config, path)) found.add(subscription);
    }
    return found.size === 0 ? NONE : [...found];
  }
}

function addTo(sets: Map<string, Set<Subscription>>, key: string, subscription: Subscription): void {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set.add(subscription));
}

function removeFrom(sets: Map<string, Set<Subscription>>, key: string, subscription: Subscription): void {
  const set = sets.get(key);
  set?.delete(subscription);
  if (set?.size === 0) sets.delete(key);
}
