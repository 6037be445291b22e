/**
 * Standard input as messages: as a whole, or line by line as it arrives, and the progress when sending fails. `stream
 * append`, `publish` and `channel publish` share it.
 *
 * Invariants: memory is bounded. The lines before a wrong one are sent first.
 */
import { Encoded, SluiceError, type Stream } from "@sluice/client";
import { isJson } from "../../streams/state.ts";
import { CliError, EXIT, usage } from "../exit.ts";
import { failureWith } from "../failure.ts";
import { say } from "../terminal.ts";

const MAX_LINE_BYTES = 64 * 1024 * 1024;
/** The most lines and characters in one request. */
const BATCH_MESSAGES = 1_000;
const BATCH_CHARS = 512 * 1_024;
const NEWLINE = 0x0a;
const RETURN = 0x0d;

export interface Line {
  readonly number: number;
  readonly bytes: Buffer;
}

/** The complete lines of each piece that arrives, byte for byte; a line ends in LF or CRLF. Empty lines are skipped. */
export async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Line[]> {
  let rest = Buffer.alloc(0);
  let number = 0;
  for await (const piece of input) {
    const bytes = rest.length === 0 ? Buffer.from(piece) : Buffer.concat([rest, piece]);
    const found: Line[] = [];
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, from)) {
      const end = at > from && bytes[at - 1] === RETURN ? at - 1 : at;
      number++;
      if (end > from) found.push({ number, bytes: bytes.subarray(from, end) });
      from = at + 1;
    }
    rest = bytes.subarray(from);
    if (rest.length > MAX_LINE_BYTES) {
      throw new CliError(EXIT.failure, `line ${number + 1} has more than ${MAX_LINE_BYTES} bytes`);
    }
    yield found;
  }
  if (rest.length > 0) yield [{ number: number + 1, bytes: rest }];
}

/** The whole input as one body. */
export async function wholeInput(input: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of input) {
    pieces.push(piece);
    length += piece.length;
    if (length > MAX_LINE_BYTES) {
      throw new CliError(
        EXIT.failure,
        `the input has more than ${MAX_LINE_BYTES} bytes; send it in parts, or with --lines`,
      );
    }
  }
  return Buffer.concat(pieces);
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a line that is JSON; empty for a blank line. */
export function jsonOf({ number, bytes }: Line): string {
  let text: string;
  try {
    text = decoder.decode(bytes).trim();
  } catch {
    throw new CliError(EXIT.failure, `line ${number} is not JSON: it is not UTF-8`);
  }
  if (text === "") return text;
  try {
    JSON.parse(text);
  } catch (fault) {
    throw new CliError(EXIT.failure, `line ${number} is not JSON: ${(fault as Error).message}`);
  }
  return text;
}

/** The body of one request. */
export interface Body {
  readonly body: string | Uint8Array;
  readonly messages: number;
}

/** The argument, or all of standard input. */
export async function* oneBody(message: string | undefined): AsyncGenerator<Body> {
  const body = message ?? (await wholeInput(process.stdin));
  if (body.length === 0) {
    const what = message === undefined ? "standard input is empty" : "a message cannot be empty";
    throw usage(`there is nothing to append: ${what}`);
  }
  yield { body, messages: 1 };
}

/** Every line of standard input as a request of its own. */
export async function* lineBodies(type: string): AsyncGenerator<Body> {
  for await (const lines of linesOf(process.stdin)) {
    for (const one of lines) {
      const text = isJson(type) ? jsonOf(one) : undefined;
      if (text === undefined) yield { body: one.bytes, messages: 1 };
      else if (text !== "") yield { body: `[${text}]`, messages: 1 };
    }
  }
}

/** Lines of JSON, as many in a request as have arrived and fit. */
export async function* jsonBodies(): AsyncGenerator<Body> {
  let texts: string[] = [];
  let chars = 0;
  function* batch(): Generator<Body> {
    // The server flattens one array level, so a line that is an array stays one message.
    if (texts.length > 0) yield { body: `[${texts.join(",")}]`, messages: texts.length };
    texts = [];
    chars = 0;
  }
  for await (const lines of linesOf(process.stdin)) {
    for (const one of lines) {
      let text: string;
      try {
        text = jsonOf(one);
      } catch (fault) {
        yield* batch();
        throw fault;
      }
      if (text === "") continue;
      if (texts.length >= BATCH_MESSAGES || chars + text.length > BATCH_CHARS) yield* batch();
      texts.push(text);
      chars += text.length;
    }
    yield* batch();
  }
}

/** Ctrl-C or SIGTERM ends the input, so that the command can finish what it has read. A second one ends the command. */
export function endInputOnSignal() {
  const interruption = {
    isAsked: false,
    forget() {
      process.off("SIGINT", ask);
      process.off("SIGTERM", ask);
    },
  };
  const ask = () => {
    interruption.isAsked = true;
    process.stdin.destroy();
  };
  process.once("SIGINT", ask);
  process.once("SIGTERM", ask);
  return interruption;
}

/**
 * Sends one request after the other. A failure or an interruption reports the progress, so that the user can continue from
 * there.
 */
export async function sendAll(
  bodies: AsyncIterable<Body>,
  send: (body: Encoded) => Promise<{ readonly offset: string }>,
): Promise<string | undefined> {
  let sent = 0;
  let offset: string | undefined;
  const interruption = endInputOnSignal();
  try {
    for await (const { body, messages } of bodies) {
      ({ offset } = await send(new Encoded(body)));
      sent += messages;
    }
  } catch (fault) {
    if (!interruption.isAsked) {
      throw sent === 0 ? fault : failureWith(fault, `${sent} messages were appended before, up to ${offset}`);
    }
  } finally {
    interruption.forget();
  }
  if (!interruption.isAsked) return offset;
  const progress = sent === 0 ? "nothing was appended" : `${sent} messages were appended, up to ${offset}`;
  throw new CliError(EXIT.failure, `interrupted; ${progress}`);
}

/** The stream's content type. A token that may write but not read needs `--type`, or an option that implies it. */
export async function typeOf(stream: Stream, otherwise?: string): Promise<string> {
  try {
    return (await stream.info()).contentType;
  } catch (fault) {
    if (!(fault instanceof SluiceError) || fault.status !== 403) throw fault;
    if (otherwise !== undefined) return otherwise;
    throw usage("this token cannot look at the stream; give its content type with --type");
  }
}

export function sayWhatIsRead(message: string | undefined): void {
  if (message === undefined && process.stdin.isTTY) say("reading from the terminal; end with Ctrl-D");
}
