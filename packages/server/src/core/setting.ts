/**
 * The kinds of settings: the allowed values, the parsing of a text from a flag or a variable, and the allowed form in words.
 * Schemas consist of these; code that reads, checks, shows or documents settings calls `aboutOf`.
 *
 * Invariants: a text that is not of the allowed form is rejected, never rounded or repaired.
 */
import { z } from "zod";

/** How a value may be shown: not at all, or as an address without its password. */
export type Secrecy = "hidden" | "address";

export interface About {
  /** Completes "it must be ...". */
  readonly form: string;
  readonly meaning: string;
  readonly initial: unknown;
  /** The default in words, if it follows from other settings; `initial` is then undefined. */
  readonly derived?: string | undefined;
  /** The value that a text stands for, or the text itself if it stands for none. The schema checks the result. */
  readonly fromText: (text: string) => unknown;
  /** The command-line flag, if the setting has one. */
  readonly flag?: string | undefined;
  /** The operand after the flag in the help text; a flag without one takes no value. */
  readonly operand?: string | undefined;
  /** The environment variable, if its name does not follow from the key. */
  readonly env?: string | undefined;
  readonly secrecy?: Secrecy | undefined;
}

type Extra = Pick<About, "flag" | "operand" | "env" | "secrecy">;

const registry = z.registry<About>();

/** The description of a setting; undefined for a group. */
export function aboutOf(schema: z.core.$ZodType): About | undefined {
  return registry.get(schema);
}

function setting<S extends z.ZodType>(schema: S, about: About): S {
  registry.add(schema, about);
  return schema;
}

interface Range {
  readonly min?: number;
  readonly max?: number;
}

const asIs = (text: string): unknown => text;

/** Accepts plain decimal only: no sign, point, exponent, unit or space. */
function wholeNumber(text: string): unknown {
  return /^(0|[1-9]\d*)$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text;
}

function whole(unit: string, initial: number, meaning: string, { min = 1, max = 1e9 }: Range, extra: Extra) {
  const form = `a whole number${unit === "" ? "" : ` of ${unit}`} from ${min} to ${max}`;
  const schema = z.int().min(min).max(max).default(initial);
  return setting(schema, { form, meaning, initial, fromText: wholeNumber, operand: "N", ...extra });
}

export function count(initial: number, meaning: string, range: Range = {}, extra: Extra = {}) {
  return whole("", initial, meaning, range, extra);
}

export function bytes(initial: number, meaning: string, range: Range = {}) {
  return whole("bytes", initial, meaning, { max: 2 ** 40, ...range }, {});
}

/** The longest delay that a timer takes. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

export function ms(initial: number, meaning: string, range: Range = {}, extra: Extra = {}) {
  return whole("milliseconds", initial, meaning, { max: MAX_TIMER_MS, ...range }, extra);
}

export function seconds(initial: number, meaning: string, range: Range = {}, extra: Extra = {}) {
  return whole("seconds", initial, meaning, { max: 10 * 365 * 24 * 3_600, ...range }, extra);
}

const YES_NO = {
  form: "true or false",
  fromText: (text: string): unknown => (text === "true" ? true : text === "false" ? false : text),
};

export function yesNo(initial: boolean, meaning: string, extra: Extra = {}) {
  return setting(z.boolean().default(initial), { ...YES_NO, meaning, initial, ...extra });
}

/** A switch whose default follows from other settings; `config/cross-checks.ts` fills it in. */
export function derivedYesNo(derived: string, meaning: string) {
  return setting(z.boolean().optional(), { ...YES_NO, meaning, initial: undefined, derived });
}

/** A percentage whose default follows from other settings; `config/cross-checks.ts` fills it in. */
export function derivedPercent(derived: string, meaning: string) {
  const form = "a whole number from 1 to 100";
  const schema = z.int().min(1).max(100).optional();
  return setting(schema, { form, meaning, initial: undefined, derived, fromText: wholeNumber, operand: "N" });
}

export function choice<const C extends readonly [string, ...string[]]>(
  choices: C,
  initial: C[number],
  meaning: string,
  extra: Extra = {},
) {
  const schema = z.enum(choices).default(initial as never);
  return setting(schema, { form: `one of ${choices.join(", ")}`, meaning, initial, fromText: asIs, ...extra });
}

const MAX_TEXT_CHARS = 4_096;

/** Rejects control characters, because they would break logs and terminals, or cut a path short. */
function isPlainText(value: string): boolean {
  return value.length >= 1 && value.length <= MAX_TEXT_CHARS && !/\p{Cc}/u.test(value);
}

export function text(initial: string, form: string, meaning: string, extra: Extra = {}) {
  const schema = z.string().refine(isPlainText).default(initial);
  return setting(schema, { form, meaning, initial, fromText: asIs, operand: "TEXT", ...extra });
}

/** A short name that becomes part of other names. */
export function word(initial: string, meaning: string) {
  const form = "1 to 64 letters, digits, ., _ and -";
  const schema = z
    .string()
    .regex(/^[\w.-]{1,64}$/)
    .default(initial);
  return setting(schema, { form, meaning, initial, fromText: asIs, operand: "TEXT" });
}

export function port(initial: number, meaning: string, extra: Extra = {}) {
  return count(initial, meaning, { min: 0, max: 65_535 }, extra);
}

/** A port that may be left closed, or opened only if it is free; the caller decides without one. */
export function optionalPort(derived: string, meaning: string, extra: Extra = {}) {
  const schema = z.union([z.int().min(0).max(65_535), z.literal("off"), z.literal("auto")]).optional();
  const form = "a whole number from 0 to 65535, off or auto";
  return setting(schema, { form, meaning, initial: undefined, derived, fromText: wholeNumber, operand: "N", ...extra });
}

/** An address of one of these schemes. */
export function isAddress(value: string, schemes: readonly string[]): boolean {
  return URL.canParse(value) && schemes.includes(new URL(value).protocol) && !/\s/.test(value);
}

/** Scheme, host and port only. */
export function origin(meaning: string) {
  const isOrigin = (value: string) => isAddress(value, ["http:", "https:"]) && new URL(value).origin === value;
  const form = "an address like https://streams.example.com, without a path";
  return setting(z.string().refine(isOrigin).optional(), { form, meaning, initial: undefined, fromText: asIs });
}

/** In a text, commas separate the items. */
export function list(accepts: (item: string) => boolean, form: string, meaning: string, extra: Extra = {}) {
  const schema = z.array(z.string().refine(accepts)).max(1_000).default([]);
  const fromText = (text: string): unknown => (text === "" ? [] : text.split(",").map((item) => item.trim()));
  return setting(schema, { form, meaning, initial: [], fromText, operand: "LIST", ...extra });
}

const MAX_SECRETS = 16;

/** In a text, white space separates the secrets, because every other character may be part of one. */
export function secrets(minChars: number, meaning: string) {
  const schema = z.array(z.string().refine(isPlainText).min(minChars)).min(1).max(MAX_SECRETS).optional();
  const form = `a list of 1 to ${MAX_SECRETS} secrets, each of at least ${minChars} characters (in a variable: separated by spaces)`;
  const fromText = (given: string): unknown => given.trim().split(/\s+/);
  return setting(schema, { form, meaning, initial: undefined, fromText, secrecy: "hidden" });
}

export function keySet(meaning: string) {
  const inline = z.looseObject({
    keys: z
      .array(z.looseObject({ kty: z.string() }).refine(isPublicKey))
      .min(1)
      .max(100),
  });
  const address = z.string().refine((value) => isAddress(value, ["http:", "https:"]));
  const form = 'the http or https address of a JSON Web Key Set, or the set itself, {"keys": [...]}, of public keys';
  return setting(z.union([address, inline]).optional(), {
    form,
    meaning,
    initial: undefined,
    fromText: jsonOrText,
    secrecy: "address",
  });
}

/** Rejects private keys and shared secrets, because the server publishes these keys. */
function isPublicKey(key: { kty: string }): boolean {
  return ["RSA", "EC", "OKP"].includes(key.kty) && !("d" in key) && !("k" in key);
}

/** An optional object; in a text, JSON. */
export function jsonObject<S extends z.ZodType>(parts: S, form: string, meaning: string) {
  return setting(parts.optional(), { form, meaning, initial: undefined, fromText: jsonOrText });
}

/** An optional text. */
export function optionalText(form: string, meaning: string, extra: Extra = {}) {
  const schema = z.string().refine(isPlainText).optional();
  return setting(schema, { form, meaning, initial: undefined, fromText: asIs, ...extra });
}

function jsonOrText(given: string): unknown {
  if (!given.trimStart().startsWith("{")) return given;
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}
