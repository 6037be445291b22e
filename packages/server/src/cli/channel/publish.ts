/**
 * `sluice channel publish`: a START, the input as DELTAs, an END. The input is standard input as text, piece by piece
 * as it arrives, or line by line; or the argument. With `--phase` it is one message of that phase alone.
 *
 * Invariants: readers are never left waiting. An interruption or a wrong line publishes an ERROR and the END. A reader's
 * request to stop ends the input.
 */
import { type Channel, type ChannelMessage, type ChannelPublisher, Encoded, SluiceError } from "@sluice/client";
import type { Command } from "commander";
import { CliError, EXIT, usage } from "../exit.ts";
import { failureOf, failureWith } from "../failure.ts";
import { examples } from "../help.ts";
import { addRemoteOptions, type RemoteOptions, remoteOf } from "../remote.ts";
import { endInputOnSignal, jsonOf, linesOf, sayWhatIsRead, wholeInput } from "../stream/input.ts";
import { line, say } from "../terminal.ts";

type Phase = ChannelMessage["phase"];

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
/** How long a request is retried. */
const PATIENCE_MS = 60_000;

export function addPublish(group: Command): void {
  const command = group
    .command("publish")
    .description("publish an answer to a channel: START, DELTAs, END; prints the offset after the last message")
    .argument("<channel>", "the id of the channel")
    .argument("[text]", "the text (default: standard input, piece by piece as it comes)")
    .option("--json", "every line of standard input that is not blank is the payload of a DELTA, as JSON")
    .option("--lines", "every line of standard input is the payload of a DELTA, as a string without its line end")
    .option("--start <JSON>", "the payload of the START")
    .option("--end <JSON>", "the payload of the END")
    .option("--phase <PHASE>", "one message of this phase (START, DELTA, END, ERROR) and nothing around it")
    .option("--sequence <N>", "the sequence of the first message (default: 0; needed with --phase)")
    .option("--id <ID>", "the id of the message, which makes a repetition idempotent; with --phase")
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
  const target = remoteOf(options).channel(channel, PATIENCE_MS);
  const offset =
    options.phase === undefined
      ? await publishAll(target, text, options)
      : await publishOne(target, phaseOf(options.phase), text, options);
  if (offset !== undefined) await line(offset);
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

async function publishOne(channel: Channel, phase: Phase, text: string | undefined, options: Options): Promise<string> {
  const sequence = sequenceOf(options);
  const takesInput = phase === "DELTA" || phase === "ERROR" || options.json === true;
  const said = text ?? (takesInput ? (await wholeInput(process.stdin)).toString("utf8") : undefined);
  const payload = said !== undefined && options.json ? jsonArgument("the payload", said) : said;
  const { offset } = await channel.publish({ phase, sequence, payload, messageId: options.id });
  return offset;
}

async function publishAll(channel: Channel, text: string | undefined, options: Options): Promise<string | undefined> {
  const sequence = sequenceOf(options);
  const start = options.start === undefined ? undefined : jsonArgument("--start", options.start);
  const end = options.end === undefined ? undefined : jsonArgument("--end", options.end);
  sayWhatIsRead(text);
  const publisher = channel.publisher({ start, sequence });
  try {
    if (text === undefined) await publishInput(publisher, options);
    else await writeText(publisher, text);
    await publisher.end(end);
  } catch (fault) {
    const { offset } = publisher;
    throw offset === undefined ? fault : failureWith(fault, `what came before was published, up to ${offset}`);
  }
  return publisher.offset;
}

async function publishInput(publisher: ChannelPublisher, { json, lines }: Options): Promise<void> {
  const interruption = endInputOnSignal();
  // A reader may ask to stop, also while no input comes.
  publisher.signal.addEventListener("abort", () => process.stdin.destroy());
  try {
    // A refused START ends the command before it waits for input.
    await publisher.flush();
    await (json || lines ? writeLines(publisher, json === true) : writeInput(publisher));
  } catch (fault) {
    if (!interruption.isAsked && !publisher.signal.aborted) {
      // Readers also get a fault of the input, as an ERROR. A fault of the server cannot be published through it.
      if (isAboutInput(fault)) await publisher.fail({ reason: failureOf(fault).message });
      throw fault;
    }
  } finally {
    interruption.forget();
  }
  if (publisher.signal.aborted) say("a reader has asked to stop; the channel gets its END");
  if (!interruption.isAsked) return;
  await publisher.fail({ reason: "interrupted" });
  throw new CliError(EXIT.failure, "interrupted; the channel has got an ERROR and its END");
}

/** A line that is not JSON, or that no request can carry. */
function isAboutInput(fault: unknown): fault is CliError | SluiceError {
  return fault instanceof CliError || (fault instanceof SluiceError && fault.code === "invalid-value");
}

async function writeInput(publisher: ChannelPublisher): Promise<void> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  for await (const piece of process.stdin as AsyncIterable<Uint8Array>)
    await writeText(publisher, decoder.decode(piece, { stream: true }));
  await writeText(publisher, decoder.decode());
}

async function writeText(publisher: ChannelPublisher, text: string): Promise<void> {
  if (text !== "") await publisher.write(text);
}

/** Encoded, because the publisher would join lines of text into one DELTA. */
async function writeLines(publisher: ChannelPublisher, isJson: boolean): Promise<void> {
  for await (const lines of linesOf(process.stdin)) {
    for (const one of lines) {
      const payload = isJson ? jsonOf(one) : JSON.stringify(one.bytes.toString("utf8"));
      if (payload !== "") await publisher.write(new Encoded(payload));
    }
  }
}

function jsonArgument(what: string, text: string): Encoded {
  try {
    JSON.parse(text);
    return new Encoded(text);
  } catch (fault) {
    throw usage(`${what} is not JSON: ${(fault as Error).message}`);
  }
}
