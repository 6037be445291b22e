/**
 * Stands between fan-out and the streams in a simulated run: calls are delayed, and fail before or after their effect. The
 * sessions scenario puts it there.
 *
 * Invariants: a copy to a stuck session happens, and is answered, only after the session recovers.
 */
import { EngineError } from "../../../../packages/server/src/engine/contract.ts";
import type { StreamPort } from "../../../../packages/server/src/sessions/stream-port.ts";
import type { Random } from "../../random.ts";
import type { Process } from "../../world.ts";

/** How it behaves during one run, drawn once. */
interface Mood {
  readonly failures: number;
  readonly delays: number;
  readonly delayMs: number;
  /** The share of copies after which their session is stuck, and for how long at most. */
  readonly sticks: number;
  readonly stuckMs: number;
  /** The share of copies after which every call fails, and for how long at most. */
  readonly outages: number;
}

const CALM: Mood = { failures: 0, delays: 0, delayMs: 0, sticks: 0, stuckMs: 0, outages: 0 };

export class Core {
  private mood: Mood;
  private readonly stuckUntil = new Map<string, number>();
  private outUntil = 0;
  private waiting: { readonly session: string; readonly go: () => unknown }[] = [];

  constructor(private readonly random: Random) {
    this.mood = {
      failures: random.pick([0, 0, 0.03, 0.2]),
      delays: random.pick([0, 0.1, 0.5]),
      delayMs: random.pick([10, 300]),
      sticks: random.pick([0, 0, 0.02, 0.1]),
      stuckMs: random.pick([300, 10_000]),
      outages: random.pick([0, 0, 0.01]),
    };
  }

  /** Ends all faults; stuck calls continue. */
  calm(): void {
    this.mood = CALM;
    this.outUntil = 0;
    this.stuckUntil.clear();
    this.letGo(() => true);
  }

  stick(session: string): void {
    this.stuckUntil.set(session, Number.POSITIVE_INFINITY);
  }

  unstick(session: string): void {
    this.stuckUntil.delete(session);
    this.letGo((waiting) => waiting === session);
  }

  private letGo(which: (session: string) => boolean): void {
    const going = this.waiting.filter(({ session }) => which(session));
    this.waiting = this.waiting.filter((one) => !going.includes(one));
    for (const { go } of going) go();
  }

  /** The core of one process. */
  of(local: StreamPort, process: Process): StreamPort {
    const call = <T>(work: () => Promise<T>) => this.call(process, work);
    return {
      follow: (...args) => call(() => local.follow(...args)),
      join: (...args) => call(() => local.join(...args)),
      remove: (...args) => call(() => local.remove(...args)),
      deliver: async (project, session, ...rest) => {
        await this.unstuck(session, process);
        return call(() => local.deliver(project, session, ...rest));
      },
    };
  }

  private async call<T>(process: Process, work: () => Promise<T>): Promise<T> {
    const { random, mood } = this;
    if (process.now() < this.outUntil) throw new EngineError("unavailable", "an outage");
    const fails = random.chance(mood.failures);
    const isEarly = random.chance(0.5);
    if (random.chance(mood.delays)) await this.sleep(process, random.between(0, mood.delayMs));
    if (fails && isEarly) throw new EngineError("unavailable", "did not get there");
    const result = await work();
    if (fails) throw new EngineError("unavailable", "the answer was lost");
    return result;
  }

  private async unstuck(session: string, process: Process): Promise<void> {
    const { random, mood } = this;
    const now = process.now();
    if (random.chance(mood.outages)) this.outUntil = now + random.between(1, mood.stuckMs);
    if (random.chance(mood.sticks)) this.stuckUntil.set(session, now + random.between(1, mood.stuckMs));
    const until = this.stuckUntil.get(session) ?? 0;
    if (until <= now) return;
    await new Promise<void>((go) => {
      // No call of a dead process continues.
      this.waiting.push({ session, go: () => process.alive && go() });
      if (Number.isFinite(until)) process.after(until - now, go);
    });
  }

  private sleep(process: Process, ms: number): Promise<void> {
    return new Promise((resolve) => process.after(ms, resolve));
  }
}
