/**
 * `sluice status`: whether a server is up and ready, its version and engine, and what is in a project. It asks what the token
 * allows and shows `-` for the rest.
 */
import { SluiceError } from "@sluice/client";
import type { Command } from "commander";
import { CliError, EXIT } from "./exit.ts";
import { examples } from "./help.ts";
import { entriesOf } from "./listed.ts";
import { addRemoteOptions, type Remote, type RemoteOptions, remoteOf } from "./remote.ts";
import { green, line, red, table } from "./terminal.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
}

const PAGE = 1_000;
/** Counting further would keep the user waiting. */
const MOST_COUNTED = 10_000;

export function addStatus(program: Command): void {
  const command = program
    .command("status")
    .description("show whether a server is up, its version and engine, and what the project holds")
    .option("--json", "one JSON object")
    .action(status);
  addRemoteOptions(command);
  examples(command, [
    ["sluice status", "the current server"],
    ["sluice status --url https://streams.example.com --json", "for scripts; exit code 6 when it is not ready"],
  ]);
}

async function status(options: Options): Promise<void> {
  const remote = remoteOf(options);
  const { url, project } = remote;
  const isReady = (await remote.fetch(`${url}/ready`)).ok;
  const [version, engine, streams, channels, sessions, wakes] = await Promise.all([
    versionOf(remote),
    engineOf(remote),
    count(remote, "streams", "streams"),
    count(remote, "channels", "channels"),
    count(remote, "sessions", "sessions"),
    count(remote, "stream/__ds/subscriptions", "subscriptions"),
  ]);
  const known = { url, ready: isReady, version, engine, project, streams, channels, sessions, wakes };
  if (options.json) await line(JSON.stringify(known));
  else {
    const state = isReady ? green("ready") : red("not ready");
    const rows = Object.entries({ ...known, ready: state }).map(([name, value]) => [name, String(value ?? "-")]);
    await line(table(rows));
  }
  if (!isReady) throw new CliError(EXIT.unavailable, `the server at ${url} is not ready; its log says why`);
}

async function versionOf(remote: Remote): Promise<string | undefined> {
  const response = await remote.fetch(`${remote.url}/openapi.json`);
  if (!response.ok) return undefined;
  return ((await response.json()) as { info?: { version?: string } }).info?.version;
}

/** Among the metrics, which not every token may read. */
async function engineOf(remote: Remote): Promise<string | undefined> {
  const response = await remote.fetch(`${remote.url}/metrics`);
  return response.ok ? /^sluice_\w*info\{[^}]*engine="(\w+)"/m.exec(await response.text())?.[1] : undefined;
}

/** Undefined if the token may not list; a `+` if there are more. */
async function count(remote: Remote, path: string, field: string): Promise<number | string | undefined> {
  let found = 0;
  try {
    for await (const _ of entriesOf(remote, path, field, PAGE)) {
      if (++found === MOST_COUNTED) return `${MOST_COUNTED}+`;
    }
  } catch (fault) {
    if (fault instanceof SluiceError && (fault.status === 401 || fault.status === 403)) return undefined;
    throw fault;
  }
  return found;
}
