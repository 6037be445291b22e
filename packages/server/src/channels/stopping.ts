/**
 * The request to stop a channel's publisher. Pure; the service submits the rule to the channel's keeper.
 *
 * A stop is an entry of the log, so followers on every node get it once and in its place, and a row, so later publish
 * answers carry it. The entry has no sequence: a run of its own begins after it (sequences.ts).
 *
 * Invariants: a channel is asked to stop at most once; a repeated request stores nothing. Nothing but the publisher ends a
 * channel.
 */
import type { Position } from "@sluice/protocol";
import { utf8 } from "../core/bytes.ts";
import { put } from "../engine/draft.ts";
import type { Decision, View } from "../engine/keeper.ts";
import { marksTable, trimAfterAppend } from "../engine/trimming.ts";
import type { ChannelLimits } from "./defaults.ts";
import { afterStop, lastSequence } from "./sequences.ts";
import { alive, metaTable } from "./state.ts";

/** Marks the log entry of a stop, for readers that see only the log. */
export const STOP_ATTRIBUTES: Readonly<Record<string, string>> = { phase: "STOP" };

export interface Stop {
  readonly reason?: string | undefined;
}

export type StopOutcome = { readonly kind: "stopped" | "absent" | "ended" };

export function stopRule(
  view: View,
  now: number,
  channel: string,
  { reason }: Stop,
  limits: ChannelLimits,
): Decision<StopOutcome> {
  const meta = alive(view.get(metaTable, ""), limits.ttlMs, now);
  if (meta === undefined) return { outcome: { kind: "absent" } };
  if (meta.endedAt !== undefined) return { outcome: { kind: "ended" } };
  if (meta.stop !== undefined) return { outcome: { kind: "stopped" } };
  const { head } = view;
  const at: Position = { generation: head.generation, seq: head.last.seq + 1 };
  const runs = afterStop(meta.runs, at, lastSequence(meta.runs, head.last.seq), limits.runs);
  const messages = [{ payload: utf8(stopText(channel, reason)), at: now, attributes: STOP_ATTRIBUTES }];
  const marks = view.get(marksTable, "") ?? [];
  return {
    outcome: { kind: "stopped" },
    changes: [
      put(metaTable, "", { ...meta, runs, stop: { reason, at } }),
      { op: "append", messages },
      ...trimAfterAppend(head, marks, { maxMessages: limits.messages }, messages, now),
    ],
  };
}

/** The data of a `stop` event. */
export function stopText(channelId: string, reason: string | undefined): string {
  return JSON.stringify({ channelId, reason });
}
