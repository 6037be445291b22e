/** `sluice config check`: checks whether the server would start with this configuration, without starting it. */
import type { Command } from "commander";
import { exposureOf } from "../../config/cross-checks.ts";
import { ConfigError } from "../../config/problem.ts";
import { examples } from "../help.ts";
import { addSettingOptions, settingsOf } from "../settings-options.ts";
import { green, line } from "../terminal.ts";

export function addCheck(group: Command): void {
  const command = group
    .command("check")
    .description("check a configuration and print everything that is wrong")
    .action(check);
  addSettingOptions(command, "unlisted");
  examples(command, [
    ["sluice config check --config sluice.yaml", "a file, together with the environment"],
    ["sluice config check --host 0.0.0.0", "as `sluice serve` would take it"],
  ]);
}

async function check(_options: unknown, command: Command): Promise<void> {
  const { settings } = settingsOf(command);
  const exposure = exposureOf(settings);
  if (exposure.kind === "refused") throw new ConfigError([exposure.why]);
  await line(green("ok"));
}
