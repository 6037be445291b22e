/**
 * The dispatchers of this node. A request for a subscription asks it for the one dispatcher in the cluster: it is started here if
 * no node has it, through an atomic claim on the subscription's entity, and else is on the node that the claim has met.
 *
 * Invariants: this node contends for a subscription only while a request or a stream wants it. A dispatcher that has lost its
 * ownership is stopped before another one of this node begins.
 */
import type { Cancel } from "../core/world.ts";
import type { Entity } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { OwnedEntity } from "../engine/owned-entity.ts";
import type { Term } from "../engine/term.ts";
import type { StreamEnd } from "./contract.ts";
import { Dispatcher, type DispatcherParts } from "./dispatcher.ts";

export interface RegistryParts extends DispatcherParts {
  readonly keepers: Keepers;
  readonly limits: DispatcherParts["limits"] & {
    readonly claimMs: number;
    readonly claimRetryMs: number;
    readonly findMs: number;
    readonly idleMs: number;
  };
}

/** Where a subscription is served. */
export type Place =
  | { readonly kind: "here"; readonly dispatcher: Dispatcher }
  | { readonly kind: "elsewhere"; readonly node: string }
  /** There is no such subscription. */
  | { readonly kind: "absent" }
  /** No node was found in time. */
  | { readonly kind: "unknown" };

interface Seat {
  readonly owned: OwnedEntity;
  dispatcher: Dispatcher | undefined;
  wantedMs: number;
  readonly waiting: Set<(place: Place) => void>;
}

export class DispatcherRegistry {
  private readonly seats = new Map<string, Seat>();
  private timer: Cancel | undefined;
  private isStopped = false;

  constructor(private readonly parts: RegistryParts) {}

  /** The dispatcher of a subscription on this node, if it has it. */
  here({ key }: Entity): Dispatcher | undefined {
    const dispatcher = this.seats.get(key)?.dispatcher;
    return dispatcher?.isServing ? dispatcher : undefined;
  }

  get all(): readonly Dispatcher[] {
    return [...this.seats.values()].flatMap(({ dispatcher }) => dispatcher ?? []);
  }

  async find(puller: Entity): Promise<Place> {
    if (this.isStopped) return { kind: "unknown" };
    const { world, limits, engine } = this.parts;
    const seat = this.seats.get(puller.key) ?? this.contend(puller);
    seat.wantedMs = world.monotonicMs();
    if (seat.dispatcher?.isServing) return { kind: "here", dispatcher: seat.dispatcher };
    const { holder } = seat.owned;
    if (holder !== undefined && holder.node !== engine.node && holder.untilMs > engine.now()) {
      return { kind: "elsewhere", node: holder.node };
    }
    return new Promise((resolve) => {
      const cancel = world.after(limits.findMs, () => answer({ kind: "unknown" }));
      const answer = (place: Place) => {
        cancel();
        seat.waiting.delete(answer);
        resolve(place);
      };
      seat.waiting.add(answer);
    });
  }

  private contend(puller: Entity): Seat {
    const { engine, keepers, world, limits, report } = this.parts;
    const claim = { leaseMs: limits.claimMs, retryMs: limits.claimRetryMs };
    const owned = new OwnedEntity({ engine, keepers, world, node: engine.node, limits: claim, report }, puller, {
      gained: (term) => void this.begin(puller, seat, term),
      refused: ({ node }) => {
        if (node !== engine.node) tell(seat, { kind: "elsewhere", node });
      },
      lost: () => this.unseat(seat, "moved"),
    });
    const seat: Seat = { owned, dispatcher: undefined, wantedMs: 0, waiting: new Set() };
    this.seats.set(puller.key, seat);
    owned.start();
    this.timer ??= world.after(limits.idleMs, this.tidy);
    return seat;
  }

  private async begin(puller: Entity, seat: Seat, term: Term): Promise<void> {
    const dispatcher = new Dispatcher(this.parts, term, () => this.leave(puller.key, seat));
    try {
      const isThere = await dispatcher.begin();
      if (!term.isHeld() || this.seats.get(puller.key) !== seat) return dispatcher.stop("moved");
      if (!isThere) {
        tell(seat, { kind: "absent" });
        return this.leave(puller.key, seat);
      }
      seat.dispatcher = dispatcher;
      tell(seat, { kind: "here", dispatcher });
    } catch (fault) {
      this.parts.report(`the dispatcher of ${puller.key} failed to begin; the next request tries again`, fault);
      dispatcher.stop("moved");
      this.leave(puller.key, seat);
    }
  }

  /** Gives up what no client has wanted for a while. */
  private readonly tidy = (): void => {
    const { world, limits } = this.parts;
    const untilMs = world.monotonicMs() - limits.idleMs;
    for (const [key, seat] of this.seats) {
      if (seat.wantedMs < untilMs && seat.waiting.size === 0 && !seat.dispatcher?.isWanted) this.leave(key, seat);
    }
    this.timer = this.seats.size > 0 && !this.isStopped ? world.after(limits.idleMs, this.tidy) : undefined;
  };

  private leave(key: string, seat: Seat): void {
    if (this.seats.get(key) === seat) this.seats.delete(key);
    this.unseat(seat, "moved");
    tell(seat, { kind: "unknown" });
    void seat.owned.stop();
  }

  private unseat(seat: Seat, why: StreamEnd): void {
    seat.dispatcher?.stop(why);
    seat.dispatcher = undefined;
  }

  /** Ends every stream, so that clients connect elsewhere. */
  drain(): void {
    for (const seat of this.seats.values()) seat.dispatcher?.endStreams("draining");
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.timer?.();
    const seats = [...this.seats.values()];
    this.seats.clear();
    for (const seat of seats) {
      this.unseat(seat, "draining");
      tell(seat, { kind: "unknown" });
    }
    await Promise.all(seats.map(({ owned }) => owned.stop()));
  }
}

function tell({ waiting }: Seat, place: Place): void {
  for (const answer of [...waiting]) answer(place);
}
