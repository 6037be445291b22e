/** Standard input line by line, with bounded memory, told when the input pauses so that what has come can be sent. */
import { CliError, EXIT } from "../exit.ts";

const MAX_LINE_BYTES = 64 * 1024 * 1024;
const NEWLINE = 0x0a;
const RETURN = 0x0d;

export interface Line {
  readonly number: number;
  readonly bytes: Buffer;
}

/** The complete lines of each piece that arrives, byte for byte; a line ends in LF or CRLF. Empty lines are left out. */
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

/** Everything that comes, as one body. */
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

/** The text of a line that is JSON; empty for one of white space only. */
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
