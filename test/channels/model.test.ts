/**
 * Random publishes, repetitions, pauses, sweeps and faults against a model that is a list: whatever fails on the way, a channel
 * holds what was acknowledged, once and in order, and nothing that was refused; and what is in the index is there.
 */
import { formatOffset, ZERO } from "@sluice/protocol";
import fc from "fast-check";
import { expect, it } from "vitest";
import { CHANNEL_LIMITS, limitsFor } from "../../packages/server/src/channels/defaults.ts";
import type { NewMessage } from "../../packages/server/src/channels/rules.ts";
import { Channels } from "../../packages/server/src/channels/service.ts";
import { channelEntity } from "../../packages/server/src/channels/state.ts";
import type { Effect, Engine } from "../../packages/server/src/engine/contract.ts";
import { Keepers } from "../../packages/server/src/engine/keeper.ts";
import { openMemory } from "../../packages/server/src/engine/memory/memory.ts";
import { manualWorld } from "../support/world.ts";

const LIMITS = { ...CHANNEL_LIMITS, messages: 20, ttlMs: 1_000, idleMs: 1_000, cleanupMs: 500 };

type Step =
  | {
      readonly kind: "publish";
      readonly phase: NewMessage["phase"];
      readonly ahead: number;
      readonly count: number;
      readonly ids: boolean;
    }
  | { readonly kind: "pass"; readonly ms: number }
  | { readonly kind: "sweep" }
  /** What happens to the next commit. */
  | { readonly kind: "fault"; readonly fault: "refused" | "lost" }
  /** Another process takes over: nothing is remembered but what is stored. */
  | { readonly kind: "restart" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("publish" as const),
      phase: fc.constantFrom("START", "DELTA", "DELTA", "DELTA", "DELTA", "ERROR", "END"),
      ahead: fc.constantFrom(1, 1, 1, 1, 2, 0, -1, -5),
      count: fc.integer({ min: 1, max: 5 }),
      ids: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 1, max: 1_200 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("sweep" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("fault" as const), fault: fc.constantFrom("refused", "lost") }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("restart" as const) }) },
);

/** What a channel holds, as a list. */
interface Model {
  messages: { readonly sequence: number; readonly phase: string; readonly messageId: string | undefined }[];
  lastAt: number;
  endedAt: number | undefined;
}

class Subject {
  readonly world = manualWorld(7);
  readonly engine = openMemory({ world: this.world });
  /** When the sweep looks at the channel; null if it never does. */
  private remindAtMs: number | null = null;
  fault: "refused" | "lost" | undefined;
  channels = this.open();
  model: Model | undefined;

  private open(): Channels {
    const { engine } = this;
    const commit: Engine["commit"] = async (...args) => {
      const fault = args[2].length > 0 ? this.fault : undefined;
      if (fault !== undefined) this.fault = undefined;
      if (fault === "refused") throw new Error("refused");
      const done = await engine.commit(...args);
      if (done.kind === "done") for (const effect of args[2]) this.noteReminder(effect);
      if (fault === "lost") throw new Error("lost");
      return done;
    };
    const faulty: Engine = Object.create(engine, { commit: { value: commit } });
    return new Channels(faulty, new Keepers(faulty, (task) => void queueMicrotask(task)), limitsFor(LIMITS, new Map()));
  }

  private noteReminder(effect: Effect): void {
    if (effect.op === "remind") this.remindAtMs = effect.atMs;
    if (effect.op === "destroy") this.remindAtMs = null;
  }

  restart(): void {
    this.channels = this.open();
  }

  alive(): Model | undefined {
    const { model } = this;
    return model?.endedAt !== undefined && this.world.now() >= model.endedAt + LIMITS.ttlMs ? undefined : model;
  }

  async publish({ phase, ahead, count, ids }: Extract<Step, { kind: "publish" }>): Promise<void> {
    const last = this.alive()?.messages.at(-1)?.sequence ?? -1;
    const messages: NewMessage[] = Array.from({ length: count }, (_, i) => {
      const sequence = Math.max(0, last + ahead + i);
      return { phase: i === 0 ? phase : "DELTA", sequence, payload: "1", messageId: ids ? `m${sequence}` : undefined };
    });
    const willBe = this.expected(messages, await this.kept());
    const willFail = this.fault;
    const outcome = await this.channels.store("p", "c", messages, LIMITS).catch(() => "failed" as const);
    const hasFailed = outcome === "failed";
    // What changes nothing commits nothing, and so cannot fail.
    if (hasFailed) expect(willFail).toBeDefined();
    if (typeof willBe === "string") {
      if (!hasFailed) expect(outcome).toMatchObject({ kind: willBe });
      return;
    }
    if (!hasFailed) expect(outcome).toMatchObject({ kind: "published" });
    if (!hasFailed || willFail === "lost") this.model = willBe;
  }

  /** What the channel should hold afterwards, or the refusal. */
  private expected(messages: readonly NewMessage[], kept: ReadonlySet<number>): Model | string {
    const before = this.alive();
    const different = before?.endedAt === undefined ? "taken" : "ended";
    let isDifferent = false;
    let model: Model | undefined = before && { ...before, messages: [...before.messages] };
    let isChanged = false;
    for (const { phase, sequence, messageId } of messages) {
      if (model === undefined) {
        if (phase !== "START") return "not-started";
        model = { messages: [], lastAt: 0, endedAt: undefined };
      } else {
        const same = model.messages.find((one) => one.sequence === sequence);
        if (same !== undefined) {
          const isKnown = messageId !== undefined && same.messageId === messageId;
          if (isKnown || same.phase === phase) continue;
          // What the request itself has is compared at once, and what is stored after all other checks, if it is kept.
          if (!before?.messages.includes(same)) return different;
          isDifferent ||= kept.has(sequence);
          continue;
        }
        if (sequence < model.messages.at(-1)!.sequence) return "passed";
        if (model.endedAt !== undefined) return "ended";
        if (phase === "START") return "started";
      }
      model.messages.push({ sequence, phase, messageId });
      isChanged = true;
      if (phase === "END") model.endedAt = this.world.now();
    }
    if (isDifferent) return different;
    if (isChanged) model!.lastAt = this.world.now();
    return model!;
  }

  /** The sequences that the log still holds. */
  private async kept(): Promise<ReadonlySet<number>> {
    const page = await this.channels.read("p", "c", undefined, 1e9, LIMITS);
    const messages = page.kind === "page" ? page.messages : [];
    return new Set(messages.map(({ payload }) => JSON.parse(new TextDecoder().decode(payload)).sequence));
  }

  async sweep(): Promise<void> {
    const due = await this.engine.due(0, 10);
    const willFail = this.fault;
    for (const { id } of due) {
      const outcome = await this.channels.sweep("p", id).catch(() => "failed" as const);
      const { model } = this;
      const now = this.world.now();
      const isOver = this.alive() === undefined;
      const isIdle = model !== undefined && model.endedAt === undefined && now >= model.lastAt + LIMITS.idleMs;
      if (outcome === "failed") {
        expect(willFail).toBeDefined();
        if (willFail === "refused") continue;
      } else expect(outcome).toBe(isOver ? "ended" : isIdle ? "abandoned" : "kept");
      if (isOver || isIdle) this.model = undefined;
    }
  }

  async check(): Promise<void> {
    const model = this.alive();
    const e = channelEntity("p", "c");
    const page = await this.channels.read("p", "c", undefined, 1e9, LIMITS);
    const exists = (await this.engine.load(e, [])).rev !== 0;
    // Whatever exists will be looked at in time, and nothing else is in the index.
    expect(this.remindAtMs !== null).toBe(exists);
    const latestMs = this.world.now() + LIMITS.ttlMs + LIMITS.idleMs + LIMITS.cleanupMs;
    expect(this.remindAtMs ?? 0).toBeLessThanOrEqual(latestMs);
    if (model === undefined) {
      expect(page.kind).toBe("absent");
      return;
    }
    if (page.kind !== "page") throw new Error(`the channel is ${page.kind}`);
    const shown = page.messages.map(({ payload }) => JSON.parse(new TextDecoder().decode(payload)));
    expect(shown.length).toBeGreaterThanOrEqual(Math.min(LIMITS.messages, model.messages.length));
    expect(shown.length).toBeLessThanOrEqual(LIMITS.messages * 1.1);
    const wanted = model.messages.slice(-shown.length);
    expect(shown.map(({ sequence, phase }) => [sequence, phase])).toEqual(
      wanted.map(({ sequence, phase }) => [sequence, phase]),
    );
    expect(page.isOver).toBe(model.endedAt !== undefined);
    expect(page.missedAfter === null).toBe(shown.length < model.messages.length);
    const offsets = page.messages.map(({ position }) => formatOffset(position));
    expect([...offsets].sort()).toEqual(offsets);
    expect(offsets[0]! > formatOffset(ZERO)).toBe(true);
  }
}

it("holds what was acknowledged, once and in order, through faults, restarts, pauses and sweeps", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 80 }), async (steps) => {
    const subject = new Subject();
    await subject.publish({ kind: "publish", phase: "START", ahead: 1, count: 3, ids: false });
    for (const one of steps) {
      if (one.kind === "publish") await subject.publish(one);
      else if (one.kind === "pass") subject.world.advance(one.ms);
      else if (one.kind === "sweep") await subject.sweep();
      else if (one.kind === "restart") subject.restart();
      else subject.fault = one.fault;
      await subject.check();
    }
  });
  await fc.assert(property, { numRuns: process.env.SLUICE_DEEP === "1" ? 400 : 150 });
}, 60_000);
