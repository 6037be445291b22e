/** `sluice config print`: the settings in force, each with its source. Secrets are hidden. */
import type { Command } from "commander";
import { effectiveSettings } from "../../config/reference.ts";
import { examples } from "../help.ts";
import { addSettingOptions, settingsOf } from "../settings-options.ts";
import { line, listing, say } from "../terminal.ts";

export function addPrint(group: Command): void {
  const command = group
    .command("print")
    .description("show the settings in force and where each came from; secrets are hidden")
    .option("--changed", "only settings that are not at their default")
    .option("--json", "one JSON object per line: key, value, from")
    .action(print);
  addSettingOptions(command, "unlisted");
  examples(command, [
    ["sluice config print --config sluice.yaml --changed", "what the file and the environment change"],
    ["sluice config print --json | jq -r .key", "for scripts"],
  ]);
}

interface Options {
  readonly changed?: boolean;
  readonly json?: boolean;
}

async function print({ changed, json }: Options, command: Command): Promise<void> {
  const all = effectiveSettings(settingsOf(command));
  const shown = changed ? all.filter(({ from }) => from !== "default") : all;
  if (json) for (const setting of shown) await line(JSON.stringify({ ...setting, value: plain(setting.value) }));
  else if (shown.length === 0) say("every setting has its default; `sluice config print` shows them");
  else {
    const rows = shown.map(({ key, value, from }) => [key, value, from]);
    await line(listing(["SETTING", "VALUE", "FROM"], rows));
  }
}

/** A value that is shown as JSON becomes a JSON value; any other, like a hidden one, stays a text. */
function plain(shown: string): unknown {
  if (shown === "not set") return null;
  try {
    return JSON.parse(shown);
  } catch {
    return shown;
  }
}
