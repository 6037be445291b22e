/** The tree of commands. `main` runs it; a test walks it to check that every command is tested. */
import { Command } from "commander";
import { addBench } from "./bench/group.ts";
import { addChannel } from "./channel/group.ts";
import { addCompletion } from "./completion.ts";
import { addConfig } from "./config/group.ts";
import { addContext } from "./context/group.ts";
import { addDoctor } from "./doctor.ts";
import { EXIT_MEANINGS } from "./exit.ts";
import { addGroup } from "./group/group.ts";
import { helpLayout } from "./help.ts";
import { addPublish } from "./publish.ts";
import { addPull } from "./pull.ts";
import { addServe } from "./serve.ts";
import { addSession } from "./session/group.ts";
import { addStatus } from "./status.ts";
import { addStream } from "./stream/group.ts";
import { addSubscription } from "./subscription/group.ts";
import { addToken } from "./token.ts";
import { addTopic } from "./topic/group.ts";
import { addWake } from "./wake/group.ts";
import { paragraph, terminalWidth } from "./wrap.ts";

export function buildProgram(version: string, width = terminalWidth()): Command {
  const program = new Command("sluice")
    .description("Sluice: one durable log, every way to subscribe.")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "show help, with examples")
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(oneLine(text)) })
    .configureHelp(helpLayout(width))
    .showSuggestionAfterError();
  const first = [addServe, addStatus, addStream, addPublish, addSession, addChannel, addGroup];
  const pull = [addTopic, addSubscription, addPull];
  const more = [addWake, addToken, addContext, addConfig, addBench, addDoctor, addCompletion];
  for (const add of [...first, ...pull, ...more]) add(program);
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
export const WELCOME = `Sluice keeps streams of messages, durably, and delivers them in every way a reader may want. To try it:

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
