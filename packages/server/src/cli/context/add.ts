/** `sluice context add`: remembers a server. The first one becomes the current one. */
import type { Command } from "commander";
import { checkContextName, contextsPath, readContexts, writeContexts } from "../contexts.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { checkUrl } from "../remote.ts";
import { wholeInput } from "../stream/lines.ts";
import { line } from "../terminal.ts";

interface Options {
  readonly url: string;
  readonly project?: string;
  readonly token?: string;
  readonly tokenStdin?: boolean;
}

export function addAdd(group: Command): void {
  const command = group
    .command("add")
    .description("remember a server, or change what is remembered of it")
    .argument("<name>", "how to call it")
    .requiredOption("--url <URL>", "where it is")
    .option("--project <P>", "the project to use there")
    .option("--token <TOKEN>", "the token to show there")
    .option("--token-stdin", "read the token from standard input, where no list of processes shows it")
    .action(add);
  examples(command, [
    ["sluice context add local --url http://127.0.0.1:4437", "the first one is used from then on"],
    ["sluice context add prod --url https://streams.example.com --project shop --token-stdin < token", "with a token"],
  ]);
}

async function add(name: string, options: Options): Promise<void> {
  checkContextName(name);
  if (options.token !== undefined && options.tokenStdin) throw usage("--token and --token-stdin exclude each other");
  const url = checkUrl(options.url);
  const typed = options.tokenStdin ? (await wholeInput(process.stdin)).toString("utf8").trim() : options.token;
  if (typed === "") throw usage("the token is empty");
  const { current, contexts } = readContexts();
  const context = { url, project: options.project, token: typed };
  writeContexts({ current: current ?? name, contexts: { ...contexts, [name]: context } });
  await line(
    `remembered ${name} (${url}) in ${contextsPath()}${(current ?? name) === name ? "; it is the current one" : ""}`,
  );
}
