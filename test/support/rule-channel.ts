/** One channel under its rules, for tests of rules: no keeper and no engine. It compares repeated messages as the service does. */
import type { Position } from "@sluice/protocol";
import { expect } from "vitest";
import { CHANNEL_LIMITS, type ChannelLimits } from "../../packages/server/src/channels/defaults.ts";
import { isSame } from "../../packages/server/src/channels/repeats.ts";
import {
  type NewMessage,
  type PublishOutcome,
  publishRule,
  sweepRule,
} from "../../packages/server/src/channels/rules.ts";
import type { Phase } from "../../packages/server/src/channels/state.ts";
import { RuleView } from "./rule-view.ts";

export const LIMITS = { ...CHANNEL_LIMITS, messages: 40, ttlMs: 1_000, idleMs: 1_000, cleanupMs: 600, runs: 3 };

export const message = (phase: Phase, sequence: number, messageId?: string): NewMessage => ({
  phase,
  sequence,
  messageId,
  payload: `"${phase}${sequence}"`,
});
export const start = message("START", 0);
export const end = (sequence: number) => message("END", sequence);
export const delta = (sequence: number, messageId?: string) => message("DELTA", sequence, messageId);
export const deltas = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => delta(from + i));

/** One channel under the rule, one request per call. */
export class Channel {
  readonly view = new RuleView();
  limits: ChannelLimits = LIMITS;

  constructor(...taken: readonly NewMessage[]) {
    if (taken.length > 0) this.publish(...taken);
  }

  publish(...messages: readonly NewMessage[]): PublishOutcome {
    return this.publishAt(0, ...messages);
  }

  publishAt(now: number, ...messages: readonly NewMessage[]): PublishOutcome {
    const compared = new Map<NewMessage, Position>();
    for (;;) {
      const outcome = this.view.run(publishRule(this.view, now, { channel: "c", messages, compared }, this.limits));
      if (outcome.kind !== "compare") return outcome;
      expect(this.view.changes).toEqual([]);
      for (const { message, position } of outcome.pairs) {
        const stored = this.view.log.at(position.seq - this.view.head.last.seq - 1);
        const isDifferent = stored !== undefined && !isSame(new TextDecoder().decode(stored.payload), message);
        if (isDifferent) return outcome.different(message);
        compared.set(message, position);
      }
    }
  }

  sweep(now: number) {
    return this.view.run(sweepRule(this.view, now, LIMITS));
  }

  get shown() {
    return this.view.log.map(({ payload }) => JSON.parse(new TextDecoder().decode(payload)));
  }

  get sequences(): number[] {
    return this.shown.map(({ sequence }) => sequence);
  }
}

export const at = (seq: number, generation = 1) => ({ generation, seq });
export const published = (
  sequence: number,
  seq: number,
  appended: number,
  gap?: number,
  gaps = gap === undefined || appended === 0 ? 0 : 1,
) => ({
  kind: "published",
  position: at(seq),
  sequence,
  appended,
  gap,
  gaps,
});
export type Row = readonly [
  name: string,
  taken: readonly NewMessage[],
  sent: readonly NewMessage[],
  outcome: object,
  kept: readonly number[],
];

/** Whether every message of the channel and of the request lies where the row says. */
export function check(
  _name: string,
  taken: readonly NewMessage[],
  sent: readonly NewMessage[],
  outcome: object,
  kept: readonly number[],
): void {
  const channel = new Channel(...taken);
  expect(channel.publish(...sent)).toEqual(outcome);
  expect(channel.sequences).toEqual(kept);
}
