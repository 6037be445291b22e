/** The tree of commands. `main` runs it; a test walks it to check that every command is tested. */
import { Command } from "commander";
import { EXIT_MEANINGS } from "./exit.ts";
import { helpLayout } from "./help.ts";
import { paragraph, terminalWidth } from "./wrap.ts";

type Add = (program: Command) => void;

/** By name, in the order of the help text. Loading all of them takes longer than most commands run. */
const COMMANDS: Readonly<Record<string, () => Promise<Add>>> = {
  serve: async () => (await import("./serve.ts")).addServe,
  status: async () => (await import("./status.ts")).addStatus,
  stream: async () => (await import("./stream/group.ts")).addStream,
  publish: async () => (await import("./publish.ts")).addPublish,
  session: async () => (await import("./session/group.ts")).addSession,
  channel: async () => (await import("./channel/group.ts")).addChannel,
  group: async () => (await import("./group/group.ts")).addGroup,
  topic: async () => (await import("./topic/group.ts")).addTopic,
  subscription: async () => (await import("./subscription/group.ts")).addSubscription,
  pull: async () => (await import("./pull.ts")).addPull,
  wake: async () => (await import("./wake/group.ts")).addWake,
  token: async () => (await import("./token.ts")).addToken,
  context: async () => (await import("./context/group.ts")).addContext,
  config: async () => (await import("./config/group.ts")).addConfig,
  bench: async () => (await import("./bench/group.ts")).addBench,
  doctor: async () => (await import("./doctor.ts")).addDoctor,
  completion: async () => (await import("./completion.ts")).addCompletion,
};

/** The program with the command that `args` name, or with all: for help, suggestions and completion. */
export function programFor(args: readonly string[], version: string): Promise<Command> {
  const [first = ""] = args;
  const isOne = Object.hasOwn(COMMANDS, first) && first !== "completion";
  return buildProgram(version, terminalWidth(), isOne ? [first] : undefined);
}

export async function buildProgram(
  version: string,
  width = terminalWidth(),
  names: readonly string[] = Object.keys(COMMANDS),
): Promise<Command> {
  const program = new Command("sluice")
    .description("Sluice: one durable log, every way to subscribe.")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "show help, with examples")
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(oneLine(text)) })
    .configureHelp(helpLayout(width))
    .showSuggestionAfterError();
  for (const add of await Promise.all(names.map((name) => COMMANDS[name]!()))) add(program);
  return program.addHelpText("after", exitCodes(width));
}

/** "error: unknown option '--x'\n(Did you mean --y?)" becomes one line. */
function oneLine(text: string): string {
  const said = text.trim().replace(/^error: /, "");
  return `sluice: ${said.replace(/\n\(Did you mean (one of )?(.*)\?\)$/, "; did you mean $2?")}\n`;
}

function exitCodes(width: number): string {
  const lines = Object.entries(EXIT_MEANINGS).map(([code, meaning]) => paragraph(meaning, width, `  ${code}  `));
  return `\nExit codes:\n${lines.join("\n")}\n`;
}

/** For a newcomer who types `sluice` alone. */
export const WELCOME = `Sluice stores streams of messages durably, and delivers them in many ways. To try it:

  1. Start a server, and leave it running:
       sluice serve

  2. In another terminal, make a stream and follow it:
       sluice stream create hello --type application/json
       sluice stream tail hello

  3. In a third one, append to it:
       sluice stream append hello '{"text": "hi"}'

  sluice --help            all commands
  sluice stream --help     what can be done with streams
  sluice session --help    one inbox for many streams
  sluice channel --help    streaming an answer while it is made
  sluice group --help      workers that share the messages of many streams
  sluice pull --help       workers that acknowledge single messages
  sluice config docs       every setting of the server`;
