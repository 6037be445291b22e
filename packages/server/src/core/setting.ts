/**
 * The kinds of settings: what a value may be, how a text from a flag or a variable becomes one, and how the allowed form is
 * said in words. The schema is made of these; everything that reads, checks, shows or documents settings asks `aboutOf`.
 *
 * What must stay true: a text that is not of the allowed form is never turned into something near it.
 */
import { z } from "zod";

/** Whether a value may be shown: not at all, or as an address without its password. */
export type Secrecy = "hidden" | "address";

export interface About {
  /** Completes "it must be ...". */
  readonly form: string;
  readonly meaning: string;
  readonly initial: unknown;
  /** What the schema is asked about: the value that a text stands for, or the text itself when it stands for none. */
  readonly fromText: (text: string) => unknown;
  /** As it is given on the command line, when it has a flag of its own. */
  readonly flag?: string | undefined;
  /** What stands behind the flag in the help; a flag without it takes no value. */
  readonly operand?: string | undefined;
  /** When it is not the name that follows from the key. */
  readonly env?: string | undefined;
  readonly secrecy?: Secrecy | undefined;
}

type Extra = Pick<About, "flag" | "operand" | "env" | "secrecy">;

const registry = z.registry<About>();

/** What is known of a setting; undefined for a group. */
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

/** Plain decimal and nothing else: no sign, no point, no exponent, no unit, no space. */
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

/** The longest time that a timer can be set to. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

export function ms(initial: number, meaning: string, range: Range = {}, extra: Extra = {}) {
  return whole("milliseconds", initial, meaning, { max: MAX_TIMER_MS, ...range }, extra);
}

export function seconds(initial: number, meaning: string, range: Range = {}, extra: Extra = {}) {
  return whole("seconds", initial, meaning, { max: 10 * 365 * 24 * 3_600, ...range }, extra);
}

export function yesNo(initial: boolean, meaning: string, extra: Extra = {}) {
  const fromText = (text: string): unknown => (text === "true" ? true : text === "false" ? false : text);
  return setting(z.boolean().default(initial), { form: "true or false", meaning, initial, fromText, ...extra });
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

/** Control characters would break logs and terminals, or cut a path short. */
function isPlainText(value: string): boolean {
  return value.length >= 1 && value.length <= MAX_TEXT_CHARS && !/\p{Cc}/u.test(value);
}

export function text(initial: string, form: string, meaning: string, extra: Extra = {}) {
  const schema = z.string().refine(isPlainText).default(initial);
  return setting(schema, { form, meaning, initial, fromText: asIs, operand: "TEXT", ...extra });
}

/** A short name that goes into other names. */
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

export function portOrOff(meaning: string, extra: Extra = {}) {
  const schema = z.union([z.int().min(1).max(65_535), z.literal("off")]).default("off");
  const form = "a whole number from 1 to 65535, or off";
  return setting(schema, { form, meaning, initial: "off", fromText: wholeNumber, operand: "N", ...extra });
}

/** An address of one of these schemes. */
export function isAddress(value: string, schemes: readonly string[]): boolean {
  return URL.canParse(value) && schemes.includes(new URL(value).protocol) && !/\s/.test(value);
}

/** Scheme, host and port, and nothing behind them. */
export function origin(meaning: string) {
  const isOrigin = (value: string) => isAddress(value, ["http:", "https:"]) && new URL(value).origin === value;
  const form = "an address like https://streams.example.com, without a path";
  return setting(z.string().refine(isOrigin).optional(), { form, meaning, initial: undefined, fromText: asIs });
}

/** As a text, the items are separated by commas. */
export function list(accepts: (item: string) => boolean, form: string, meaning: string, extra: Extra = {}) {
  const schema = z.array(z.string().refine(accepts)).max(1_000).default([]);
  const fromText = (text: string): unknown => (text === "" ? [] : text.split(",").map((item) => item.trim()));
  return setting(schema, { form, meaning, initial: [], fromText, operand: "LIST", ...extra });
}

const MAX_SECRETS = 16;

/** As a text, secrets are separated by white space, because everything else may well be part of one. */
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

/** A key that could sign, or a shared secret, does not belong where keys are shown to whoever asks. */
function isPublicKey(key: { kty: string }): boolean {
  return ["RSA", "EC", "OKP"].includes(key.kty) && !("d" in key) && !("k" in key);
}

/** Something that is made of several parts and not needed. As a text it is JSON. */
export function jsonObject<S extends z.ZodType>(parts: S, form: string, meaning: string) {
  return setting(parts.optional(), { form, meaning, initial: undefined, fromText: jsonOrText });
}

/** A text that is not needed. */
export function optionalText(form: string, meaning: string) {
  const schema = z.string().refine(isPlainText).optional();
  return setting(schema, { form, meaning, initial: undefined, fromText: asIs });
}

function jsonOrText(given: string): unknown {
  if (!given.trimStart().startsWith("{")) return given;
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}
