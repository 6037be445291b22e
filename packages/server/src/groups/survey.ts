/**
 * How far the groups that this node leads are behind, for the metrics. It walks over their streams at a limited pace; the feature
 * starts it.
 *
 * Invariants: it looks at `perStep` streams every `stepMs` at most, however many groups there are. So with many streams its figures
 * are older, and its load is the same. It reads nothing while this node leads no group.
 */
import type { Position } from "@sluice/protocol";
import type { Cancel, World } from "../core/world.ts";
import { entityOf } from "../engine/contract.ts";
import { type After, lagOf } from "./info.ts";
import type { GroupStream, Leader } from "./leader-state.ts";
import { streamView } from "./leader-view.ts";

export interface SurveyParts {
  readonly world: Pick<World, "after">;
  readonly now: () => number;
  /** The leaders of this node, by the keys of their groups. */
  leaders(): Iterable<readonly [string, Leader]>;
  after(project: string, path: string, position: Position): Promise<After | undefined>;
  readonly stepMs: number;
  readonly perStep: number;
}

interface Figure {
  readonly lag: number;
  readonly pending: number;
  /** When the oldest message was published that is not acknowledged. */
  readonly oldestMs: number | undefined;
}

/** The sums over all groups of a node. */
export interface Backlogs {
  lag: number;
  pending: number;
  oldestSeconds: number;
  /** The lag of the group that has the most. */
  greatestLag: number;
}

export class Survey {
  private readonly figures = new Map<string, Map<string, Figure>>();
  private timer: Cancel | undefined;
  private isStopped = false;

  constructor(private readonly parts: SurveyParts) {}

  start(): void {
    const { world, stepMs } = this.parts;
    this.timer = world.after(stepMs, async () => {
      await this.walk().catch(() => {
        // The store does not answer, which the operator learns from it already.
      });
      if (!this.isStopped) this.start();
    });
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.();
  }

  get backlogs(): Backlogs {
    const sums: Backlogs = { lag: 0, pending: 0, oldestSeconds: 0, greatestLag: 0 };
    for (const streams of this.figures.values()) {
      let lag = 0;
      for (const figure of streams.values()) {
        lag += figure.lag;
        sums.pending += figure.pending;
        const ageMs = figure.oldestMs === undefined ? 0 : this.parts.now() - figure.oldestMs;
        sums.oldestSeconds = Math.max(sums.oldestSeconds, ageMs / 1_000);
      }
      sums.lag += lag;
      sums.greatestLag = Math.max(sums.greatestLag, lag);
    }
    return sums;
  }

  /** One round over all streams of all groups, with a rest after every `perStep` of them. */
  private async walk(): Promise<void> {
    const { perStep } = this.parts;
    const leaders = new Map(this.parts.leaders());
    for (const key of this.figures.keys()) if (!leaders.has(key)) this.figures.delete(key);
    let looked = 0;
    for (const [key, leader] of leaders) {
      const known = this.figures.get(key) ?? new Map<string, Figure>();
      this.figures.set(key, known);
      for (const path of known.keys()) if (!leader.streams.has(path)) known.delete(path);
      for (const stream of [...leader.streams.values()]) {
        if (this.isStopped) return;
        if (++looked % perStep === 0) await this.rest();
        const figure = await this.figureOf(entityOf(key).project, leader, stream);
        if (figure === undefined) known.delete(stream.path);
        else known.set(stream.path, figure);
      }
    }
  }

  private rest(): Promise<void> {
    const { world, stepMs } = this.parts;
    return new Promise((resolve) => {
      this.timer = world.after(stepMs, resolve);
    });
  }

  private async figureOf(project: string, leader: Leader, stream: GroupStream): Promise<Figure | undefined> {
    const { path, at, acked, pending } = streamView(leader, stream);
    const found = await this.parts.after(project, path, at);
    if (found === undefined) return undefined;
    const lag = Math.max(0, lagOf(at, found.tail) - acked);
    return { lag, pending, oldestMs: lag === 0 ? undefined : found.oldestMs };
  }
}
