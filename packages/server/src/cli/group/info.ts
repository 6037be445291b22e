/** `sluice group info`: which member has which streams of a group, and how far each is processed. */
import type { GroupInfo } from "@sluice/client";
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions } from "../remote.ts";
import { bold, harmless, line, table } from "../terminal.ts";
import { addWhichOptions, GROUP_ARGUMENT, groupOf, type WhichOptions } from "./which.ts";

interface Options extends WhichOptions {
  readonly json?: boolean;
}

export function addInfo(group: Command): void {
  const command = group
    .command("info")
    .description("show the members of a group, its streams, and how far each is processed")
    .argument("<group>", GROUP_ARGUMENT)
    .option("--json", "as a JSON object")
    .action(info);
  addRemoteOptions(addWhichOptions(command));
  examples(command, [
    ["sluice group info billing", "members, streams and lag"],
    ["sluice group info billing --json | jq .pending", "for scripts: the messages that wait"],
    ["sluice group info billing --filter 'orders/#' --mode queue", "if several groups have the name"],
  ]);
}

async function info(name: string, options: Options): Promise<void> {
  const found = await groupOf(name, options).info();
  if (options.json) return line(JSON.stringify(found));
  const { group, mode, filter, leader, members, pending, oldestUnackedMs } = found;
  const own = {
    group: harmless(group),
    mode,
    filter: harmless(filter),
    leader: leader === null ? "-" : harmless(leader.node),
    pending: String(pending),
    ...(typeof oldestUnackedMs === "number" && { oldest: `${(oldestUnackedMs / 1_000).toFixed(1)} s` }),
  };
  await line(table(Object.entries(own)));
  const people = members.map(({ id, streams }) => [harmless(id), mode === "queue" ? "-" : String(streams.length)]);
  await showTable(["MEMBER", "STREAMS"], people, "no member consumes it");
  await showTable(["STREAM", "STATUS", "MEMBER", "LAG", "PROGRESS"], streamRows(found), "it has no streams yet");
}

function streamRows({ members, streams }: GroupInfo): string[][] {
  const holders = new Map(members.flatMap(({ id, streams: held }) => held.map((stream) => [stream, id] as const)));
  return streams.map(({ stream, status, lag, progress }) => [
    harmless(stream),
    status,
    harmless(holders.get(stream) ?? "-"),
    String(lag),
    progress,
  ]);
}

async function showTable(heading: readonly string[], rows: readonly string[][], none: string): Promise<void> {
  if (rows.length === 0) return line(`\n${none}`);
  const [head, ...rest] = table([heading, ...rows]).split("\n");
  await line(["", bold(head!), ...rest].join("\n"));
}
