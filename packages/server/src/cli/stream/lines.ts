/** Standard input line by line, with bounded memory, told when the input pauses so that what has come can be sent. */
import { CliError, EXIT } from "../exit.ts";

const MAX_LINE_BYTES = 64 * 1024 * 1024;
const NEWLINE = 0x0a;

export interface Line {
  readonly number: number;
  readonly text: string;
}

/** The complete lines of each piece that arrives; empty lines are left out. */
export async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Line[]> {
  let rest = Buffer.alloc(0);
  let number = 0;
  const toLine = (bytes: Buffer): Line => ({ number: ++number, text: bytes.toString("utf8").replace(/\r$/, "") });
  for await (const piece of input) {
    const bytes = rest.length === 0 ? Buffer.from(piece) : Buffer.concat([rest, piece]);
    const found: Line[] = [];
    let from = 0;
    for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, from)) {
      found.push(toLine(bytes.subarray(from, at)));
      from = at + 1;
    }
    rest = bytes.subarray(from);
    if (rest.length > MAX_LINE_BYTES) {
      throw new CliError(EXIT.failure, `line ${number + 1} has more than ${MAX_LINE_BYTES} bytes`);
    }
    yield found.filter(({ text }) => text.trim() !== "");
  }
  if (rest.length > 0) yield [toLine(rest)].filter(({ text }) => text.trim() !== "");
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
