/**
 * Fits text to the width of the terminal. Help texts, tables and messages use it.
 *
 * Invariants: lines break between words only. A word that is longer than a line stays whole. Output that is not a terminal
 * is never wrapped, so that scripts get one line per item.
 */

/** The columns of the terminal; infinite when the output goes elsewhere. */
export function terminalWidth(output: Partial<NodeJS.WriteStream> = process.stdout): number {
  return output.isTTY ? output.columns || 80 : Number.POSITIVE_INFINITY;
}

/** Breaks words into lines of at most `width` characters. Every line but the last ends with `more`. */
export function fill(words: readonly string[], width: number, more = ""): string[] {
  const lines: string[] = [];
  let line = "";
  for (const [i, word] of words.entries()) {
    const isLast = i === words.length - 1;
    const room = width - (isLast ? 0 : more.length);
    if (line === "") line = word;
    else if (line.length + 1 + word.length <= room) line += ` ${word}`;
    else {
      lines.push(line + more);
      line = word;
    }
  }
  return line === "" ? lines : [...lines, line];
}

/** A paragraph: the first line starts with `first`, and every further one is indented by as many spaces as `rest`. */
export function paragraph(text: string, width: number, first = "", rest = first.length): string {
  const indent = " ".repeat(rest);
  const [start = "", ...more] = fill(text.split(" "), width - Math.max(first.length, rest));
  return [first + start, ...more.map((line) => indent + line)].join("\n");
}

/** A message of one or more lines. A line that is too long goes on below, as far indented as it began. */
export function message(text: string, width: number): string {
  const fit = (line: string) => {
    const indent = /^ */.exec(line)![0];
    return line.length <= width ? line : paragraph(line.slice(indent.length), width, indent);
  };
  return text.split("\n").map(fit).join("\n");
}

/** A shell command over several lines. It breaks between its words, outside of quotes, so that it can be copied. */
export function shellCommand(text: string, width: number, first: string, rest: number): string {
  const words = text.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? [text];
  const lines = fill(words, width - Math.max(first.length, rest), " \\");
  return lines.map((line, i) => (i === 0 ? first : " ".repeat(rest)) + line).join("\n");
}
