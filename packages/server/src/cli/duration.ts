/**
 * Durations and counts of the command line: 90s, 15m, 1h, 7d, or a plain number of seconds. Commands parse their flags
 * with it.
 */
import { usage } from "./exit.ts";

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

export function parseSeconds(flag: string, text: string): number {
  const match = /^([1-9]\d{0,9})([smhd]?)$/.exec(text);
  if (match === null) throw usage(`${flag} must be a time like 90s, 15m, 1h or 7d, not ${JSON.stringify(text)}`);
  return Number(match[1]) * SECONDS[match[2] === "" ? "s" : match[2]!]!;
}

export function parseCount(flag: string, text: string, max = 1e9): number {
  const value = Number(text);
  if (/^\d{1,15}$/.test(text) && value >= 1 && value <= max) return value;
  throw usage(`${flag} must be a whole number from 1 to ${max}, not ${JSON.stringify(text)}`);
}
