/**
 * Output for people: lines, tables and colors. Every command uses it.
 *
 * Invariants: colors appear only on a terminal that wants them. A program that stops reading a pipe causes no error.
 */
import { message, terminalWidth } from "./wrap.ts";

/** Whether a stream shows colors; https://no-color.org is respected. */
function hasColors(stream: { readonly isTTY?: boolean }): boolean {
  const { NO_COLOR, TERM } = process.env;
  return stream.isTTY === true && (NO_COLOR === undefined || NO_COLOR === "") && TERM !== "dumb";
}

const paint = (stream: { readonly isTTY?: boolean }, code: number, text: string): string =>
  hasColors(stream) ? `\x1b[${code}m${text}\x1b[0m` : text;

export const bold = (text: string): string => paint(process.stdout, 1, text);
export const dim = (text: string): string => paint(process.stdout, 2, text);
export const green = (text: string): string => paint(process.stdout, 32, text);
export const red = (text: string): string => paint(process.stdout, 31, text);
export const yellow = (text: string): string => paint(process.stdout, 33, text);

/** Waits until the reader accepts more. */
export function write(text: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    if (process.stdout.write(text)) resolve();
    else process.stdout.once("drain", () => resolve());
  });
}

export function line(text = ""): Promise<void> {
  return write(`${text}\n`);
}

/** Before every message. */
const NAME = "sluice:";

/** Writes to standard error, so that it never mixes with output that a script reads. */
export function say(text: string): void {
  process.stderr.write(`${message(`${NAME} ${text}`, terminalWidth(process.stderr))}\n`);
}

export function complain(text: string): void {
  const fitted = message(`${NAME} ${text}`, terminalWidth(process.stderr));
  process.stderr.write(`${paint(process.stderr, 31, NAME)}${fitted.slice(NAME.length)}\n`);
}

/** `sluice stream read a | head -1` closes the pipe first, as its user intends. */
export function endQuietlyWithOurReader(): void {
  process.stdout.on("error", (fault: NodeJS.ErrnoException) => {
    if (fault.code === "EPIPE") process.exit(0);
    complain(`the output cannot be written to standard output: ${fault.message}`);
    process.exit(1);
  });
  // A server must keep serving when standard error is closed.
  process.stderr.on("error", () => {});
}

/**
 * A list with its heading. On a terminal too narrow for the columns, every row becomes a block of one line per column, because
 * the terminal would break its lines in the middle of words.
 */
export function listing(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  width = terminalWidth(),
): string {
  const [top, ...rest] = table([heading, ...rows]).split("\n");
  const isTooWide = [top!, ...rest].some((one) => one.length > width);
  if (!isTooWide) return [bold(top!), ...rest].join("\n");
  return rows.map((row) => table(heading.map((name, i) => [name, row[i] ?? ""]))).join("\n\n");
}

/** Columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Control characters from messages and names must not reach the terminal. */
export function harmless(text: string): string {
  return text.replace(/\p{Cc}/gu, "\ufffd");
}

export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return unit === 0 ? `${value} B` : `${value.toFixed(1)} ${units[unit]}`;
}
