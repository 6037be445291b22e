/** `sluice group info`: which member has which streams of a group, and how far each is processed. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { ageText } from "../listed.ts";
import { addRemoteOptions } from "../remote.ts";
import { bold, harmless, line, say, table } from "../terminal.ts";
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
    ["sluice group info billing --json | jq .lag", "for scripts: the messages that wait"],
    ["sluice group info billing --filter 'orders/#' --mode queue", "if several groups have the name"],
  ]);
}

async function info(name: string, options: Options): Promise<void> {
  const found = await groupOf(name, options).info();
  if (options.json) return line(JSON.stringify(found));
  const { group, mode, filter, leader, members, streams, isCut } = found;
  const own = {
    group: harmless(group),
    mode,
    filter: harmless(filter),
    leader: leader === null ? "-" : harmless(leader.node),
    lag: String(found.lag),
    pending: String(found.pending),
    oldest: ageText(found.oldestUnackedMs),
  };
  await line(table(Object.entries(own)));
  const people = members.map((one) => [
    harmless(one.id),
    mode === "queue" ? "-" : String(one.streams.length),
    String(one.pending),
  ]);
  await showTable(["MEMBER", "STREAMS", "PENDING"], people, "no member consumes it");
  const rows = streams.map((one) => [
    harmless(one.stream),
    one.status,
    harmless(one.borrower ?? "-"),
    String(one.lag),
    ageText(one.oldestUnackedMs),
    one.progress,
  ]);
  await showTable(["STREAM", "STATUS", "MEMBER", "LAG", "OLDEST", "PROGRESS"], rows, "it has no streams yet");
  if (isCut) say("there are more streams; only these are listed and summed up");
}

async function showTable(heading: readonly string[], rows: readonly string[][], none: string): Promise<void> {
  if (rows.length === 0) return line(`\n${none}`);
  const [head, ...rest] = table([heading, ...rows]).split("\n");
  await line(["", bold(head!), ...rest].join("\n"));
}
