/** `sluice context ls`: lists the remembered servers. Tokens are not shown. */
import type { Command } from "commander";
import { readContexts, shownUrl } from "../contexts.ts";
import { examples } from "../help.ts";
import { line, listing, say } from "../terminal.ts";

export function addLs(group: Command): void {
  const command = group
    .command("ls")
    .description("list the remembered servers; * marks the current one")
    .option("--json", "one JSON object per line")
    .action(list);
  examples(command, [["sluice context ls", "tokens are not shown"]]);
}

async function list({ json }: { json?: boolean }): Promise<void> {
  const { current, contexts } = readContexts();
  const all = Object.entries(contexts).map(([name, { url, project, token }]) => ({
    name,
    current: name === current,
    url: shownUrl(url),
    project: project ?? "default",
    token: token === undefined ? "none" : "(hidden)",
  }));
  if (json) for (const one of all) await line(JSON.stringify(one));
  else if (all.length === 0) say("there are no contexts yet; see `sluice context add --help`");
  else {
    const rows = all.map((one) => [one.current ? "*" : "", one.name, one.url, one.project, one.token]);
    await line(listing(["", "NAME", "URL", "PROJECT", "TOKEN"], rows));
  }
}
