/**
 * Wake subscriptions as the routes use them: put, get, delete, link. It submits rules to the subscription's keeper and
 * strings the steps together; it decides nothing itself. Requests of the holders of wakes are in holding.ts.
 */
import { hex } from "../core/bytes.ts";
import type { Metric } from "../core/metric.ts";
import { nextTurn, type World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import { Discovery } from "../engine/discovery.ts";
import type { Keepers } from "../engine/keeper.ts";
import type { Streams } from "../streams/service.ts";
import { WAKE_LIMITS, type WakeLimits } from "./defaults.ts";
import { Follower } from "./following.ts";
import { Holding } from "./holding.ts";
import type { SigningKeys } from "./keys.ts";
import { addStreamsRule, confirmRule, createRule, deleteRule, removeStreamRule } from "./link-rules.ts";
import { Linker } from "./linker.ts";
import { SubscriptionIndex } from "./matching.ts";
import { wakeMetrics } from "./metrics.ts";
import {
  type Config,
  FRESH,
  isWakeStream,
  type Link,
  linkTable,
  META,
  type Meta,
  metaTable,
  STATE,
  type State,
  stateTable,
  WAKE,
  wakeEntity,
} from "./state.ts";
import { Subscription } from "./subscription.ts";
import { Waker } from "./waking.ts";
import { Delivery, type WebhookSender } from "./webhook-delivery.ts";

export interface Parts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly streams: Streams;
  readonly world: World;
  readonly keys: SigningKeys;
  readonly sender: WebhookSender;
  readonly report: (what: string, fault: unknown) => void;
  readonly limits?: WakeLimits;
  /** How much of a limit for all projects one project may use. */
  readonly sharePercent?: number | undefined;
}

export interface Stored {
  readonly meta: Meta;
  readonly state: State;
  readonly links: readonly { readonly path: string; readonly link: Link }[];
}

export type PutResult =
  | { readonly kind: "created" | "exists"; readonly stored: Stored }
  | { readonly kind: "differs" | "too-many-links" };

const INCARNATION_BYTES = 8;

export class Wakes {
  private readonly index: SubscriptionIndex;
  private readonly limits: WakeLimits;
  private readonly linker: Linker;
  private readonly waker: Waker;
  private readonly follower: Follower;
  /** Claims, acks and releases. */
  readonly holding: Holding;
  readonly metrics: readonly Metric[];
  private readonly discovery: Discovery;
  /**
   * First checks run one after another, behind discovery, so that every subscription hears appends before its first
   * check ends.
   */
  private firstLooks: Promise<void> = Promise.resolve();

  constructor(private readonly parts: Parts) {
    const { engine, keepers, streams, world, keys, sender, report } = parts;
    const limits = parts.limits ?? WAKE_LIMITS;
    this.limits = limits;
    this.index = new SubscriptionIndex(limits, parts.sharePercent);
    this.linker = new Linker(engine, keepers, streams, world, this.index, report, limits);
    const delivery = new Delivery(streams, keys, sender, limits.deliveries, parts.sharePercent);
    this.metrics = wakeMetrics(delivery, this.index);
    this.waker = new Waker(engine, keepers, world, this.index, this.linker, delivery, report, limits);
    this.follower = new Follower(this.index, this.waker, world, limits.queuedStreams);
    this.holding = new Holding(keepers, this.linker, this.waker, (project, id) => this.findNow(project, id));
    this.discovery = new Discovery(engine, world, {
      kind: WAKE,
      noun: "wake subscriptions",
      adopt: (project, id) => this.adopt(project, id),
      page: limits.page,
      backoff: { firstMs: limits.recheckMs, maxMs: limits.maxRecheckMs },
      recheckMs: limits.discoverMs,
      report,
    });
    streams.onEvent((event) => this.follower.hear(event));
  }

  /** Resolves when every stored subscription has been checked once. */
  get ready(): Promise<void> {
    return this.discovery.ready.then(() => this.firstLooks);
  }

  /** Finds the stored subscriptions, and what happened to their streams while no server ran. */
  start(): void {
    this.parts.keys.start();
    this.discovery.start();
  }

  /** Adds a subscription that is new to this node, and checks again one that another node changed. */
  private async adopt(project: string, id: string): Promise<void> {
    const known = this.index.get(project, id);
    if (known !== undefined) return this.lookIfChanged(known);
    const subscription = await this.find(project, id);
    if (subscription === undefined) return;
    const { world } = this.parts;
    this.firstLooks = this.firstLooks.then(() => nextTurn(world)).then(() => this.waker.tick(subscription, "time"));
  }

  private async lookIfChanged(subscription: Subscription): Promise<void> {
    const { rev } = await this.parts.engine.load(wakeEntity(subscription.project, subscription.id), []);
    if (rev === subscription.lookedAt) return;
    subscription.lookedAt = rev;
    void this.waker.look(subscription);
  }

  async stop(): Promise<void> {
    const discovered = this.discovery.stop();
    this.parts.keys.stop();
    await this.waker.stop();
    await discovered;
    await this.firstLooks;
  }

  /** Handles a subscription whose reminder has passed. */
  async sweep(project: string, id: string): Promise<void> {
    const subscription = await this.find(project, id);
    if (subscription) await this.waker.tick(subscription, "swept");
  }

  /** As `find`, after all stream events so far have been processed. */
  private async findNow(project: string, id: string): Promise<Subscription | undefined> {
    const subscription = await this.find(project, id);
    this.follower.flush();
    return subscription;
  }

  /** The subscription from the index, or from the store if the index does not have it yet. */
  private async find(project: string, id: string): Promise<Subscription | undefined> {
    const known = this.index.get(project, id);
    if (known) return known;
    const { rows } = await this.parts.engine.load(wakeEntity(project, id), [META]);
    const meanwhile = this.index.get(project, id);
    if (meanwhile || rows[0] === undefined) return meanwhile;
    const subscription = new Subscription(project, id, metaTable.decode(rows[0]), this.limits);
    this.index.add(subscription);
    return subscription;
  }

  async put(project: string, id: string, config: Config, base: string): Promise<PutResult> {
    const e = wakeEntity(project, id);
    const { keepers, keys, world } = this.parts;
    if (config.type === "webhook") await keys.kid(project);
    const confirmed = await keepers.submit(e, [META], (view) => confirmRule(view, config, base));
    if (confirmed.kind === "differs") return confirmed;
    if (confirmed.kind === "exists") return this.stored(project, id, "exists");
    this.index.demandRoom(project, config.streams.length);

    const incarnation = hex(world.randomBytes(INCARNATION_BYTES));
    const draft = new Subscription(project, id, { config, incarnation, base, createdAt: 0 }, this.limits);
    const explicit = await this.linker.tailsOf(project, config.streams);
    const matching = await this.linker.matching(draft);
    const input = { config, base, incarnation, explicit, matching };
    const created = await keepers.submit(e, [META, STATE], (view, now) =>
      createRule(view, now, input, this.limits.links),
    );
    if (created.kind === "created") {
      const subscription = new Subscription(project, id, created.meta, this.limits);
      for (const { path } of explicit) subscription.explicit.add(path);
      this.index.add(subscription);
      // Streams may have been created or extended since they were read.
      void this.waker.tick(subscription, "time");
    }
    return created.kind === "created" || created.kind === "exists" ? this.stored(project, id, created.kind) : created;
  }

  private async stored(project: string, id: string, kind: "created" | "exists"): Promise<PutResult> {
    const stored = await this.get(project, id);
    // Another caller deleted it right after; for this caller it existed.
    return stored ? { kind, stored } : { kind: "differs" };
  }

  /** Ids of subscriptions, in order. */
  async ids(project: string, after: string, count: number): Promise<readonly string[]> {
    return (await this.parts.engine.list(project, WAKE, "", after, count)).ids;
  }

  async get(project: string, id: string): Promise<Stored | undefined> {
    const subscription = await this.find(project, id);
    if (subscription === undefined) return undefined;
    const { rows } = await this.parts.engine.load(wakeEntity(project, id), [META, STATE]);
    if (rows[0] === undefined) return undefined;
    const links: { path: string; link: Link }[] = [];
    for await (const entry of this.linker.links(subscription)) links.push(entry);
    return { meta: metaTable.decode(rows[0]), state: rows[1] ? stateTable.decode(rows[1]) : FRESH, links };
  }

  /** Deletes in one commit. Requests that hold a wake of it are fenced. */
  async delete(project: string, id: string): Promise<"deleted" | "absent"> {
    const subscription = await this.find(project, id);
    const outcome = await this.parts.keepers.submit(wakeEntity(project, id), [META], deleteRule);
    if (subscription) this.index.remove(subscription);
    return outcome;
  }

  async addStreams(project: string, id: string, paths: readonly string[]) {
    const subscription = await this.find(project, id);
    if (subscription === undefined) return "absent";
    this.index.demandLinks(project, paths.length);
    if (paths.some((path) => isWakeStream(subscription.config, path))) return "own-wake-stream";
    return this.waker.step(subscription, async () => {
      const tails = await this.linker.tailsOf(project, paths);
      const keys = [META, STATE, ...paths.map(linkTable.at)];
      const outcome = await this.parts.keepers.submit(wakeEntity(project, id), keys, (view) =>
        addStreamsRule(view, tails, this.limits.links),
      );
      if (outcome !== "added") return outcome;
      for (const path of paths) {
        this.index.link(subscription, path);
        subscription.hear(path, false, true);
      }
      // A message may have been appended since the tail was read.
      this.waker.follow(subscription);
      return outcome;
    });
  }

  async removeStream(project: string, id: string, path: string): Promise<"removed" | "absent"> {
    const subscription = await this.find(project, id);
    if (subscription === undefined) return "absent";
    return this.waker.step(subscription, async () => {
      const keys = [META, STATE, linkTable.at(path)];
      const outcome = await this.parts.keepers.submit(wakeEntity(project, id), keys, (view) =>
        removeStreamRule(view, path),
      );
      if (outcome === "removed") this.index.unlink(subscription, path);
      return outcome;
    });
  }
}
