/**
 * The flags that give settings, for every command that needs the server's configuration. They come from the catalog,
 * are collected as text, and are checked together with environment and file, so that all problems are reported at once.
 */
import { type Command, Option } from "commander";
import { allEntries, type Entry, nearest } from "../config/catalog.ts";
import { type FlagGiven, type Loaded, loadSettings } from "../config/load.ts";
import { isSwitch } from "../config/reference.ts";
import { helpWidthOf } from "./help.ts";
import { paragraph } from "./wrap.ts";

/** Unknown flags and words stay in `command.args`, for `settingsOf` to report. */
export function addSettingOptions(command: Command, inHelp: "listed" | "unlisted" = "listed"): Command {
  command.option("--config <FILE>", "a configuration file, YAML or JSON (SLUICE_CONFIG)");
  for (const entry of allEntries()) {
    if (entry.flag === undefined) continue;
    const flags = isSwitch(entry) ? entry.flag : `${entry.flag} <${entry.operand}>`;
    command.addOption(new Option(flags, describe(entry)).hideHelp(inHelp === "unlisted"));
  }
  if (inHelp === "unlisted") {
    const more = "And every flag of `sluice serve`; its help lists them.";
    command.addHelpText("after", ({ command: asked }) => `\n${paragraph(more, helpWidthOf(asked))}`);
  }
  return command
    .option("--set <KEY=VALUE>", "any other setting; `sluice config docs` lists them all", collect)
    .allowUnknownOption()
    .allowExcessArguments();
}

/** Described like the other flags: in lower case, without a full stop, with the default at the end. */
function describe({ meaning, initial }: Entry): string {
  const text = meaning.charAt(0).toLowerCase() + meaning.slice(1).replace(/\.$/, "");
  const hasDefault = typeof initial === "string" || typeof initial === "number";
  return hasDefault ? `${text} (default: ${initial})` : text;
}

function collect(value: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, value];
}

/** Throws a ConfigError. */
export function settingsOf(command: Command): Loaded {
  const options = command.opts() as Record<string, unknown> & { config?: string; set?: readonly string[] };
  const flags: FlagGiven[] = [];
  for (const entry of allEntries()) {
    if (entry.flag === undefined) continue;
    const attribute = new Option(entry.flag).attributeName();
    if (command.getOptionValueSource(attribute) !== "cli") continue;
    flags.push({ flag: entry.flag, text: isSwitch(entry) ? undefined : String(options[attribute]) });
  }
  flags.push(...(options.set ?? []).map((text) => ({ flag: "--set", text })));
  return loadSettings({ flags, env: process.env, configFile: options.config }, unknownArguments(command));
}

function unknownArguments(command: Command): string[] {
  const known = command.options.flatMap(({ long }) => (long === undefined || long === null ? [] : [long]));
  const problems: string[] = [];
  for (const [i, word] of command.args.entries()) {
    if (word.startsWith("-")) {
      const flag = word.split("=")[0]!;
      const meant = nearest(flag, known);
      problems.push(`${flag} is not a flag of this command${meant === undefined ? "" : `; did you mean ${meant}?`}`);
    } else if (!command.args[i - 1]?.startsWith("-")) {
      // The word after an unknown flag is probably its value.
      problems.push(`${JSON.stringify(word)} is not understood here; settings are given as flags, like --port 8080`);
    }
  }
  return problems;
}
