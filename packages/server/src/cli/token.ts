/** `sluice token`: mints a token with the first secret of a project, as the server accepts it. */
import type { Command } from "commander";
import { isProjectName } from "../core/project.ts";
import { parseFilter } from "../core/topic.ts";
import { parseSeconds } from "./duration.ts";
import { usage } from "./exit.ts";
import { examples } from "./help.ts";
import { addSettingOptions, settingsOf } from "./settings-options.ts";
import { line } from "./terminal.ts";

interface Options {
  readonly project?: string;
  readonly scope: string;
  readonly ttl: string;
  readonly sub?: string;
  readonly streams?: string;
}

const SCOPES = ["read", "write", "admin", "metrics"];

export function addToken(program: Command): void {
  const command = program
    .command("token")
    .description("mint a token for a project, with its configured secret")
    .option("--project <P>", "the project (default: SLUICE_PROJECT, or default)")
    .option("--scope <LIST>", "what the token allows: read, write, admin, metrics; separated by commas", "read")
    .option("--ttl <TIME>", "how long the token is valid, like 15m, 1h or 7d", "1h")
    .option("--sub <NAME>", "the subject, which owns the sessions that its bearer creates")
    .option("--streams <FILTERS>", "confines the token to topic filters, like 'chat/+,log/#'")
    .action(mint);
  addSettingOptions(command, "unlisted");
  examples(command, [
    ["SLUICE_SECRET_default=… sluice token --scope read,write --ttl 1h", "with a secret of the environment"],
    [
      "sluice token --config sluice.yaml --project shop --scope read --streams 'orders/#' --sub ada",
      "a token confined to some streams",
    ],
    ["export SLUICE_TOKEN=$(sluice token --config sluice.yaml --scope admin)", "for the commands that follow"],
  ]);
}

async function mint(options: Options, command: Command): Promise<void> {
  const { settings } = settingsOf(command);
  const project = options.project ?? process.env.SLUICE_PROJECT ?? "default";
  if (!isProjectName(project))
    throw usage(`a project is named by letters, digits, _ and -, not ${JSON.stringify(project)}`);
  const { secrets, issuer, audience } = settings.projects[project] ?? {};
  if (secrets === undefined) {
    throw usage(
      `project ${project} has no secret; give it one with SLUICE_SECRET_${project}, or projects.${project}.secrets in the file`,
    );
  }
  const { mint: minted } = await import("../auth/mint.ts");
  const request = {
    scope: scopesOf(options.scope).join(" "),
    ttlSeconds: parseSeconds("--ttl", options.ttl),
    sub: options.sub,
    project,
    streams: filtersOf(options.streams),
    issuer,
    audience,
  };
  await line(await minted(secrets[0]!, request, Date.now()));
}

function scopesOf(text: string): string[] {
  const scopes = text.split(/[\s,]+/).filter((scope) => scope !== "");
  const wrong = scopes.find((scope) => !SCOPES.includes(scope));
  if (wrong !== undefined || scopes.length === 0) {
    throw usage(`--scope must be made of ${SCOPES.join(", ")}, not ${JSON.stringify(wrong ?? text)}`);
  }
  return [...new Set(scopes)];
}

function filtersOf(text: string | undefined): string[] | undefined {
  if (text === undefined) return undefined;
  const filters = text.split(",").map((filter) => filter.trim());
  const wrong = filters.find((filter) => parseFilter(filter) === undefined);
  if (wrong !== undefined)
    throw usage(`--streams: ${JSON.stringify(wrong)} is not a topic filter; it must be like chat/+ or log/#`);
  return filters;
}
