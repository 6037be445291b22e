/**
 * `sluice channel publish`: a START, what comes as DELTAs, an END. What comes is standard input as text, piece by piece as it
 * arrives, or every line of it; or the argument. With `--phase` it is one message of that phase and nothing around it.
 */
import type { Command } from "commander";
import { CliError, EXIT, usage } from "../exit.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { jsonOf, linesOf, wholeInput } from "../stream/lines.ts";
import { line, say } from "../terminal.ts";
import { type Outgoing, type Phase, Sender } from "./sender.ts";

interface Options extends RemoteOptions {
  readonly json?: boolean;
  readonly lines?: boolean;
  readonly start?: string;
  readonly end?: string;
  readonly phase?: string;
  readonly sequence?: string;
  readonly id?: string;
}

const PHASES: readonly Phase[] = ["START", "DELTA", "END", "ERROR"];
/** What one DELTA takes of a long text: in the worst case six bytes each, and then still several fit into a request. */
const PIECE_CHARS = 1_000;

export function addPublish(group: Command): void {
  const command = group
    .command("publish")
    .description("publish to a channel: START, what comes as DELTAs, END; prints the offset after the last message")
    .argument("<channel>", "the id of the channel")
    .argument("[text]", "the text (default: standard input, piece by piece as it comes)")
    .option("--json", "every line of standard input that is not blank is the payload of a DELTA, as JSON")
    .option("--lines", "every line of standard input is the payload of a DELTA, as a string without its line end")
    .option("--start <JSON>", "the payload of the START")
    .option("--end <JSON>", "the payload of the END")
    .option("--phase <PHASE>", "one message of this phase (START, DELTA, END, ERROR) and nothing around it")
    .option("--sequence <N>", "the sequence of the first message (default: 0; needed with --phase)")
    .option("--id <ID>", "the id of the message, by which a repeated one is known; with --phase")
    .action(publish);
  addRemoteOptions(command);
  examples(command, [
    ["sluice channel publish answers/7 'Hello.'", "a whole answer at once"],
    ["my-model | sluice channel publish answers/7", "an answer while it is written"],
    [`cat deltas.ndjson | sluice channel publish answers/7 --json --start '{"model":"m"}'`, "payloads, one per line"],
    ["sluice channel publish answers/7 --phase START --sequence 0", "step by step: the START"],
    ["sluice channel publish answers/7 'Hel' --phase DELTA --sequence 1 --id m1", "then one DELTA"],
    ["sluice channel publish answers/7 --phase END --sequence 2", "and the END"],
  ]);
}

async function publish(channel: string, text: string | undefined, options: Options): Promise<void> {
  check(text, options);
  const remote = remoteOf(options);
  const sender = new Sender(remote, `${remote.channelUrl(channel)}/publish`, sequenceOf(options));
  if (options.phase !== undefined) await publishOne(sender, phaseOf(options.phase), text, options);
  else await publishAll(sender, text, options);
  if (sender.offset !== undefined) await line(sender.offset);
}

function check(text: string | undefined, { json, lines, start, end, phase, sequence, id }: Options): void {
  if (json && lines) throw usage("--json and --lines exclude each other");
  if (text !== undefined && (lines || (json && phase === undefined))) {
    throw usage(`${json ? "--json" : "--lines"} reads standard input; leave the text out`);
  }
  if (phase === undefined) {
    if (id !== undefined) throw usage("--id is for one message; give its --phase");
    return;
  }
  if (sequence === undefined) throw usage("--phase needs --sequence");
  if (lines || start !== undefined || end !== undefined) {
    throw usage("--phase is one message; --lines, --start and --end are for whole answers");
  }
}

function sequenceOf({ sequence = "0" }: Options): number {
  if (/^(0|[1-9]\d*)$/.test(sequence) && Number.isSafeInteger(Number(sequence))) return Number(sequence);
  throw usage(`--sequence must be a whole number from 0 to 2^53-1, not ${JSON.stringify(sequence)}`);
}

function phaseOf(text: string): Phase {
  const phase = PHASES.find((one) => one === text.toUpperCase());
  if (phase !== undefined) return phase;
  throw usage(`--phase must be one of ${PHASES.join(", ")}, not ${JSON.stringify(text)}`);
}

async function publishOne(sender: Sender, phase: Phase, text: string | undefined, options: Options): Promise<void> {
  const takesInput = phase === "DELTA" || phase === "ERROR" || options.json === true;
  const said = text ?? (takesInput ? (await wholeInput(process.stdin)).toString("utf8") : undefined);
  const payload =
    said === undefined ? undefined : options.json ? jsonArgument("the payload", said) : JSON.stringify(said);
  await sender.send([{ phase, payload, messageId: options.id }]);
}

async function publishAll(sender: Sender, text: string | undefined, options: Options): Promise<void> {
  const start: Outgoing = { phase: "START", payload: options.start && jsonArgument("--start", options.start) };
  const end: Outgoing = { phase: "END", payload: options.end && jsonArgument("--end", options.end) };
  if (text !== undefined) {
    await sender.send([start, ...pieces(text), end]);
    return;
  }
  if (process.stdin.isTTY) say("reading from the terminal; end with Ctrl-D");
  const fail = failOnSignal(sender);
  try {
    await sender.send([start]);
    for await (const deltas of options.json || options.lines ? ofLines(options) : ofText()) {
      await sender.send(deltas);
    }
    if (fail.asked) await fail.now();
  } catch (fault) {
    if (fail.asked && !(fault instanceof CliError)) await fail.now();
    // What is wrong with the input is told to those who watch, too; what is wrong with the server cannot be.
    if (fault instanceof CliError && fault.exitCode === EXIT.failure && fault.message.startsWith("line ")) {
      await sender.send(failure(fault.message));
    }
    throw fault;
  } finally {
    fail.forget();
  }
  await sender.send([end]);
}

function failure(reason: string): Outgoing[] {
  return [{ phase: "ERROR", payload: JSON.stringify({ reason }) }, { phase: "END" }];
}

/** Ctrl-C must not leave those who watch waiting: they get an ERROR and the END. */
function failOnSignal(sender: Sender) {
  const state = { asked: false };
  const ask = () => {
    state.asked = true;
    process.stdin.destroy();
  };
  process.once("SIGINT", ask);
  process.once("SIGTERM", ask);
  return {
    get asked() {
      return state.asked;
    },
    async now(): Promise<never> {
      await sender.send(failure("interrupted"));
      throw new CliError(EXIT.failure, "interrupted; the channel has got an ERROR and its END");
    },
    forget() {
      process.off("SIGINT", ask);
      process.off("SIGTERM", ask);
    },
  };
}

async function* ofText(): AsyncGenerator<Outgoing[]> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for await (const piece of process.stdin as AsyncIterable<Uint8Array>)
    yield pieces(decoder.decode(piece, { stream: true }));
  yield pieces(decoder.decode());
}

async function* ofLines({ json }: Options): AsyncGenerator<Outgoing[]> {
  for await (const lines of linesOf(process.stdin)) {
    const deltas: Outgoing[] = [];
    let fault: unknown;
    for (const one of lines) {
      try {
        const payload = json ? jsonOf(one) : JSON.stringify(one.bytes.toString("utf8"));
        if (payload !== "") deltas.push({ phase: "DELTA", payload });
      } catch (found) {
        fault = found;
        break;
      }
    }
    // What came before a line that is wrong is published first.
    yield deltas;
    if (fault !== undefined) throw fault;
  }
}

/** A text as DELTAs that fit into a request, none of which cuts a character. */
function pieces(text: string): Outgoing[] {
  const found: Outgoing[] = [];
  for (let from = 0; from < text.length; ) {
    let to = Math.min(from + PIECE_CHARS, text.length);
    if (to < text.length && /[\ud800-\udbff]/.test(text[to - 1]!)) to--;
    found.push({ phase: "DELTA", payload: JSON.stringify(text.slice(from, to)) });
    from = to;
  }
  return found;
}

function jsonArgument(what: string, text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch (fault) {
    throw usage(`${what} is not JSON: ${(fault as Error).message}`);
  }
}
