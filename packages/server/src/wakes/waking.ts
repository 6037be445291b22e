/**
 * Drives subscriptions: looks for work, begins wakes, delivers them, and handles leases and retries. The rules decide;
 * this strings their steps together and keeps the timers. Called by the follower, the service, the sweep and its own
 * timers.
 *
 * Invariants: after every step the timer matches the stored state. After a fault the whole subscription is checked
 * again.
 */
import { parseOffset } from "@sluice/protocol";
import { backoffMs } from "../core/backoff.ts";
import { base64url, hex } from "../core/bytes.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { isWorkOursAlone } from "../engine/other-nodes.ts";
import type { WakeLimits } from "./defaults.ts";
import type { Linker } from "./linker.ts";
import type { SubscriptionIndex } from "./matching.ts";
import {
  type LinkInfo,
  linkTable,
  META,
  type Meta,
  nextDue,
  STATE,
  stateTable,
  type Wake,
  wakeEntity,
} from "./state.ts";
import type { Subscription } from "./subscription.ts";
import { type Due, dueRule, type Fresh, type Result, resultRule, wakeRule } from "./wake-rules.ts";
import type { Delivery } from "./webhook-delivery.ts";

const WAKE_ID_BYTES = 12;
const SECRET_BYTES = 24;

export class Waker {
  private readonly flights = new Set<Promise<void>>();
  private isStopped = false;

  constructor(
    private readonly engine: Engine,
    private readonly keepers: Keepers,
    private readonly world: World,
    private readonly index: SubscriptionIndex,
    private readonly linker: Linker,
    private readonly delivery: Delivery,
    private readonly report: (what: string, fault: unknown) => void,
    readonly limits: WakeLimits,
  ) {}

  /** Runs a step for a request. */
  async step<T>(subscription: Subscription, task: () => Promise<T>): Promise<T> {
    subscription.admit();
    return this.serially(subscription, task);
  }

  /** Sets the timer after the step. */
  private serially<T>(subscription: Subscription, task: () => Promise<T>): Promise<T> {
    return subscription.serially(async () => {
      try {
        return await task();
      } finally {
        await this.rearm(subscription).catch((fault) => this.doubt(subscription, fault));
      }
    });
  }

  /** Runs a step that no request waits for. */
  private async quietly(subscription: Subscription, task: () => Promise<unknown>): Promise<void> {
    if (this.isStopped || subscription.isStopped) return;
    try {
      await this.serially(subscription, task);
    } catch (fault) {
      this.doubt(subscription, fault);
    }
  }

  /** After a fault nothing in memory is trusted. Consecutive faults are reported once. */
  doubt(subscription: Subscription, fault: unknown): void {
    if (this.isStopped || subscription.isStopped) return;
    const { project, id } = subscription;
    if (subscription.doubts++ === 0)
      this.report(`work on the wake subscription ${project}/${id} failed; the server checks it again`, fault);
    subscription.isUnsure = true;
    subscription.suspectAll();
    this.arm(subscription, this.doubtUntil(subscription));
  }

  /** Sets the timer for a time of the engine's clock. */
  private arm(subscription: Subscription, atMs: number | undefined): void {
    const inMs = atMs === undefined ? undefined : Math.max(0, atMs - this.engine.now());
    subscription.arm(this.world, inMs, () => this.tick(subscription, "time"));
  }

  private doubtUntil({ doubts }: Subscription): number {
    const { recheckMs, maxRecheckMs } = this.limits;
    return this.engine.now() + backoffMs(doubts, { firstMs: recheckMs, maxMs: maxRecheckMs });
  }

  private async rearm(subscription: Subscription): Promise<void> {
    if (this.isStopped || subscription.isStopped) return;
    const { rows } = await this.engine.load(wakeEntity(subscription.project, subscription.id), [STATE]);
    const due = rows[0] && nextDue(stateTable.decode(rows[0]));
    const doubt = subscription.isUnsure ? this.doubtUntil(subscription) : undefined;
    const at = due === undefined || doubt === undefined ? (due ?? doubt) : Math.min(due, doubt);
    this.arm(subscription, at);
  }

  /** Streams of this subscription changed. Several such calls become one step. */
  follow(subscription: Subscription): void {
    if (subscription.isFollowing) return;
    subscription.isFollowing = true;
    void this.quietly(subscription, async () => {
      subscription.isFollowing = false;
      const noted = await this.linker.takeNotes(subscription);
      if (noted.kind === "noted" && !noted.isBusy) await this.check(subscription);
    });
  }

  /** Called by the timer, the sweep, after a fault, or when a missing wake stream appears. */
  tick(subscription: Subscription, why: "time" | "swept" | "retry"): Promise<void> {
    return this.quietly(subscription, async () => {
      const { incarnation, inFlight, isUnsure } = subscription;
      subscription.isUnsure = false;
      const isFirstLook = isUnsure && why === "time" && isWorkOursAlone(this.engine);
      if (isUnsure) await this.linker.relink(subscription);
      const due: Due = { incarnation, inFlight, why: isFirstLook ? "first-look" : why };
      const e = wakeEntity(subscription.project, subscription.id);
      const outcome = await this.keepers.submit(e, [META, STATE], (view, now) => dueRule(view, now, due, this.limits));
      if (outcome.kind === "absent") this.index.remove(subscription);
      else if (outcome.kind === "attempt") this.launch(subscription, outcome.meta, outcome.wake);
      else if (outcome.kind === "expired" || isUnsure) await this.check(subscription);
      subscription.doubts = 0;
    });
  }

  /** Another node has changed the subscription: links may be new and have work. */
  look(subscription: Subscription): Promise<void> {
    return this.quietly(subscription, async () => {
      await this.linker.survey(subscription);
      await this.check(subscription);
    });
  }

  /**
   * Begins a wake if there is work and none is in progress; returns whether one is in progress now. Call it within a
   * step.
   */
  async check(subscription: Subscription): Promise<boolean> {
    const { incarnation } = subscription;
    const tails = await this.linker.pending(subscription);
    if (tails.length === 0) return false;
    const e = wakeEntity(subscription.project, subscription.id);
    const keys = [META, STATE, ...tails.map(({ path }) => linkTable.at(path))];
    const input = { incarnation, fresh: this.fresh(), tails };
    const outcome = await this.keepers.submit(e, keys, (view, now) => wakeRule(view, now, input, this.limits));
    if (outcome.kind === "woken") this.launch(subscription, outcome.meta, outcome.wake);
    return outcome.kind === "woken" || outcome.kind === "busy";
  }

  fresh(): Fresh {
    const wakeId = `w_${hex(this.world.randomBytes(WAKE_ID_BYTES))}`;
    return { wakeId, secret: base64url(this.world.randomBytes(SECRET_BYTES)) };
  }

  /** Delivers the wake outside of any step, then stores the result. */
  private launch(subscription: Subscription, meta: Meta, wake: Wake): void {
    if (this.isStopped) return;
    const { project, id } = subscription;
    subscription.inFlight = wake.generation;
    let infos: readonly LinkInfo[] = [];
    const snapshot = async () => {
      infos = await this.linker.infos(subscription, (_, link) =>
        link.snapshot?.generation === wake.generation ? parseOffset(link.snapshot.offset) : undefined,
      );
      return infos;
    };
    const flight = this.delivery
      .attempt({ project, id, meta, wake }, snapshot)
      .catch((fault): Result["kind"] => {
        if (!this.isStopped) this.report(`delivering the wake of ${project}/${id} failed; it will be retried`, fault);
        return "failed";
      })
      .then((kind) => this.land(subscription, wake, kind, infos))
      .finally(() => this.flights.delete(flight));
    this.flights.add(flight);
  }

  private async land(
    subscription: Subscription,
    wake: Wake,
    kind: Result["kind"],
    infos: readonly LinkInfo[],
  ): Promise<void> {
    const { incarnation } = subscription;
    const { generation } = wake;
    const taken = infos.filter(({ link }) => link.snapshot?.generation === generation);
    const snapshot = taken.map(({ path }) => path);
    const result: Result = {
      incarnation,
      generation,
      attempt: wake.attempt!.number,
      kind,
      snapshot,
      random: this.world.random(),
    };
    await this.quietly(subscription, async () => {
      if (subscription.inFlight === generation) subscription.inFlight = undefined;
      const e = wakeEntity(subscription.project, subscription.id);
      const keys = [META, STATE, ...snapshot.map(linkTable.at)];
      const outcome = await this.keepers.submit(e, keys, (view, now) => resultRule(view, now, result, this.limits));
      if (outcome === "ended") await this.check(subscription);
    });
    if (subscription.inFlight === generation) subscription.inFlight = undefined;
  }

  /** Starts no more steps, aborts deliveries in flight, and waits for running steps. Open wakes are stored. */
  async stop(): Promise<void> {
    this.isStopped = true;
    const subscriptions = [...this.index.all()];
    for (const subscription of subscriptions) subscription.stop();
    this.delivery.close();
    await Promise.allSettled([...this.flights, ...subscriptions.map((subscription) => subscription.settled)]);
  }
}
