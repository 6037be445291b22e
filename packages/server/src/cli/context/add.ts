/** `sluice context add`: remembers a server. The first one becomes the current one. */
import type { Command } from "commander";
import { checkContextName, contextsPath, readContexts, writeContexts } from "../contexts.ts";
import { usage } from "../exit.ts";
import { examples } from "../help.ts";
import { checkToken, checkUrl } from "../remote.ts";
import { wholeInput } from "../stream/input.ts";
import { line, say } from "../terminal.ts";

interface Options {
  readonly url?: string;
  readonly project?: string;
  readonly token?: string;
  readonly tokenStdin?: boolean;
}

export function addAdd(group: Command): void {
  const command = group
    .command("add")
    .description("remember a server, or change a remembered one; options that are not given stay")
    .argument("<name>", "the name of the context")
    .option("--url <URL>", "the address of the server; needed the first time")
    .option("--project <P>", "the project to use there")
    .option("--token <TOKEN>", "the token to send to it")
    .option("--token-stdin", "read the token from standard input, where no list of processes shows it")
    .action(add);
  examples(command, [
    ["sluice context add local --url http://127.0.0.1:4437", "the first one is used from then on"],
    ["sluice context add prod --token-stdin < newer-token", "a new token for a server that is known already"],
    ["sluice context add prod --url https://streams.example.com --project shop --token-stdin < token", "with a token"],
  ]);
}

async function add(name: string, options: Options): Promise<void> {
  checkContextName(name);
  if (options.token !== undefined && options.tokenStdin) throw usage("--token and --token-stdin exclude each other");
  const { current, contexts } = readContexts();
  const known = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  const given = options.url ?? known?.url;
  if (given === undefined) throw usage(`${name} is not known yet; say where it is with --url`);
  const url = checkUrl(given);
  const typed = options.tokenStdin ? (await wholeInput(process.stdin)).toString("utf8").trim() : options.token;
  if (typed === "") throw usage("the token is empty");
  checkToken(typed);
  // A token belongs to its own server and does not move to another one.
  const kept = known !== undefined && known.url === url ? known.token : undefined;
  const context = { url, project: options.project ?? known?.project, token: typed ?? kept };
  if (known?.token !== undefined && context.token === undefined)
    say(`the token of ${known.url} was forgotten; give one for ${url} with --token-stdin`);
  writeContexts({ current: current ?? name, contexts: { ...contexts, [name]: context } });
  await line(
    `remembered ${name} (${url}) in ${contextsPath()}${(current ?? name) === name ? "; it is the current one" : ""}`,
  );
}
