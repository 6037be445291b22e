/** `sluice session ls`: lists the sessions of a project. The token needs the scope admin. */
import type { Command } from "commander";
import { addListing, timeText } from "../listed.ts";

interface ListedSession {
  readonly sessionId: string;
  readonly expiresAt: number;
  readonly subscriptions: number;
}

export function addLs(group: Command): void {
  addListing<ListedSession>(group, {
    what: "sessions",
    description: "list sessions; if the server has keys, needs an admin token",
    path: "sessions",
    field: "sessions",
    heading: ["SESSION", "EXPIRES", "STREAMS"],
    row: ({ sessionId, expiresAt, subscriptions }) => [sessionId, timeText(expiresAt), String(subscriptions)],
    examples: [
      ["sluice session ls", "all of them, and how many streams each follows"],
      ["sluice session ls --json | jq -r .sessionId", "for scripts"],
    ],
  });
}
