/** Which group a command is about: its name, and its filter and mode where several groups have the name. */
import type { Group, GroupMode } from "@sluice/client";
import type { Command } from "commander";
import { usage } from "../exit.ts";
import { type RemoteOptions, remoteOf } from "../remote.ts";

export interface WhichOptions extends RemoteOptions {
  readonly filter?: string;
  readonly mode?: string;
}

export const GROUP_ARGUMENT = "the name of the group";

export function addWhichOptions(command: Command): Command {
  return command
    .option("--filter <FILTER>", "the filter of the group, if several have its name")
    .option("--mode <MODE>", "share or queue, if groups of both modes have its name");
}

export function groupOf(name: string, options: WhichOptions): Group {
  const { filter, mode } = options;
  return remoteOf(options).group(name, filter, { mode: mode as GroupMode | undefined });
}

const OFFSET = /^\d{16}_\d{16}$/;

/** Where a group begins or goes to: a word, an offset, or a time as the user writes it. */
export function placeOf(flag: string, text: string): string | number {
  if (text === "earliest" || text === "latest" || OFFSET.test(text)) return text;
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isSafeInteger(ms) && ms >= 0) return ms;
  throw usage(
    `${flag} must be earliest, latest, an offset or a time like 2026-01-31T12:00Z, not ${JSON.stringify(text)}`,
  );
}
