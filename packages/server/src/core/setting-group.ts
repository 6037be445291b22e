/**
 * A group of settings: those that an operator may want to change, and the internal ones: every other number of the part's limits,
 * as `internal.<group>.<name>`. Internal settings are checked like all others and documented nowhere. Features and other parts
 * declare groups; the configuration joins them.
 *
 * Invariants: a default is the constant of the part that it belongs to, so that it exists once.
 */
import type { z } from "zod";
import { bytes, count, MAX_TIMER_MS, ms, seconds, yesNo } from "./setting.ts";

/** The limits of a part: numbers and switches by name, with their defaults. */
export type LimitsObject = Readonly<Record<string, unknown>>;

type InternalNames<L, S> = {
  [K in keyof L]-?: K extends keyof S ? never : L[K] extends number | boolean ? K : never;
}[keyof L];

/** A number or a switch for each limit that is not public. */
export type InternalShape<L, S> = {
  readonly [K in InternalNames<L, S> & string]: z.ZodDefault<L[K] extends boolean ? z.ZodBoolean : z.ZodInt>;
};

export interface SettingGroup<S extends z.ZodRawShape = z.ZodRawShape, I extends z.ZodRawShape = z.ZodRawShape> {
  /** Its heading in the reference. */
  readonly title: string;
  readonly settings: S;
  readonly internal: I;
}

/** `settings` are the public ones; all other numbers and switches of `limits` are internal. */
export function settingGroup<S extends z.ZodRawShape, L extends object>(
  title: string,
  limits: L,
  settings: S,
): SettingGroup<S, InternalShape<L, S>> {
  const internal: Record<string, z.ZodType> = {};
  for (const [name, initial] of Object.entries(limits)) {
    if (Object.hasOwn(settings, name)) continue;
    if (typeof initial === "boolean") internal[name] = yesNo(initial, INTERNAL);
    else if (typeof initial === "number") internal[name] = numberOf(name, initial);
  }
  return { title, settings, internal: internal as InternalShape<L, S> };
}

const INTERNAL = "Internal; may change or go in any version.";
const FROM_ZERO = { min: 0 };
/** What is never a single timer may be longer than one: up to ten years. */
const LONG = { min: 0, max: 10 * 365 * 24 * 3_600_000 };

/** The unit is the end of the name. */
function numberOf(name: string, initial: number): z.ZodType {
  if (name.endsWith("Ms")) return ms(initial, INTERNAL, initial > MAX_TIMER_MS ? LONG : FROM_ZERO);
  if (name.endsWith("Seconds")) return seconds(initial, INTERNAL, FROM_ZERO);
  if (name.endsWith("Bytes")) return bytes(initial, INTERNAL, FROM_ZERO);
  return count(initial, INTERNAL, FROM_ZERO);
}
