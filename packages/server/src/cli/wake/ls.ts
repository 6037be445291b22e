/** `sluice wake ls`: lists the wake subscriptions of a project. */
import type { Command } from "commander";
import { addListing } from "../listed.ts";
import { harmless } from "../terminal.ts";
import { SUBSCRIPTIONS, type WakeSubscription } from "./subscription.ts";

export function addLs(group: Command): void {
  addListing<WakeSubscription>(group, {
    what: "wake subscriptions",
    description: "list wake subscriptions",
    path: SUBSCRIPTIONS,
    field: "subscriptions",
    heading: ["ID", "TYPE", "STATUS", "FAILURES", "STREAMS", "WAKES"],
    row: ({ id, type, status, retry_count, pattern, streams, webhook, wake_stream }) => [
      harmless(id),
      type,
      status,
      String(retry_count),
      harmless(pattern ?? streams.map(({ path }) => path).join(" ")),
      harmless(webhook?.url ?? wake_stream ?? "-"),
    ],
    examples: [
      ["sluice wake ls", "all of them, with their status"],
      ["sluice wake ls --json | jq -r .id", "for scripts"],
    ],
  });
}
