/** `sluice group ls`: lists the groups of a project. */
import type { Command } from "commander";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { bold, harmless, line, say, table } from "../terminal.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

export function addLs(group: Command): void {
  const command = group
    .command("ls")
    .description("list groups")
    .option("--json", "one JSON object per line")
    .action(list);
  addRemoteOptions(command);
  examples(command, [
    ["sluice group ls", "all of them"],
    ["sluice group ls --json", "for scripts"],
  ]);
}

async function list(options: Options): Promise<void> {
  const rows = [["GROUP", "MODE", "FILTER"]];
  for await (const group of remoteOf(options).sluice().groups()) {
    if (options.json) await line(JSON.stringify(group));
    else rows.push([harmless(group.group), group.mode, harmless(group.filter)]);
  }
  if (options.json) return;
  if (rows.length === 1) {
    say("there are no groups here; `sluice group consume NAME FILTER` makes one");
    return;
  }
  const [heading, ...rest] = table(rows).split("\n");
  await line([bold(heading!), ...rest].join("\n"));
}
