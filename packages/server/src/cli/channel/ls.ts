/** `sluice channel ls`: lists the channels of a project. */
import type { Command } from "commander";
import { addListing, timeText } from "../listed.ts";
import { harmless } from "../terminal.ts";

interface ListedChannel {
  readonly channelId: string;
  readonly phase: string;
  readonly sequence: number;
  readonly messages: number;
  readonly lastPublishAt: number;
}

export function addLs(group: Command): void {
  addListing<ListedChannel>(group, {
    what: "channels",
    description: "list channels",
    path: "channels",
    field: "channels",
    heading: ["CHANNEL", "PHASE", "SEQUENCE", "MESSAGES", "LAST PUBLISH"],
    row: ({ channelId, phase, sequence, messages, lastPublishAt }) => [
      harmless(channelId),
      phase,
      String(sequence),
      String(messages),
      timeText(lastPublishAt),
    ],
    examples: [
      ["sluice channel ls", "all of them, with the phase of the newest message"],
      ["sluice channel ls --json | jq -r .channelId", "for scripts"],
    ],
  });
}
