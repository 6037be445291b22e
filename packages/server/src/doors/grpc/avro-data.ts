/**
 * Whether JSON or binary data follows a schema of Avro. Pure.
 *
 * Invariants: it takes untrusted data: every length is checked against the bytes that are left, and lists of values that take no
 * bytes are bounded.
 */
import type { AvroType } from "./avro.ts";

const MAX_INT = 2 ** 31;
const MAX_ITEMS = 1_000_000;
const MAX_DEPTH = 100;

/** Throws an Error that names the place. */
export function checkAvroJson(type: AvroType, value: unknown, at = "the message"): void {
  const demand = (holds: boolean, what: string) => {
    if (!holds) throw new Error(`${at} must be ${what}`);
  };
  switch (type.kind) {
    case "null":
      demand(value === null, "null");
      return;
    case "boolean":
      demand(typeof value === "boolean", "true or false");
      return;
    case "int":
      demand(Number.isInteger(value) && Math.abs(value as number) <= MAX_INT, "a whole number of 32 bits");
      return;
    case "long":
      demand(Number.isInteger(value), "a whole number");
      return;
    case "float":
    case "double":
      demand(typeof value === "number", "a number");
      return;
    case "bytes":
    case "string":
      demand(typeof value === "string", "a text");
      return;
    case "fixed":
      demand(typeof value === "string" && value.length === type.size, `a text of ${type.size} bytes`);
      return;
    case "enum":
      demand(type.symbols.includes(value as string), `one of ${type.symbols.join(", ")}`);
      return;
    case "array":
      demand(Array.isArray(value), "a list");
      for (const [i, item] of (value as unknown[]).entries()) checkAvroJson(type.values, item, `${at}[${i}]`);
      return;
    case "map":
      demand(isObject(value), "an object");
      for (const [key, item] of Object.entries(value as object)) checkAvroJson(type.values, item, `${at}.${key}`);
      return;
    case "record":
      demand(isObject(value), "an object");
      checkFields(type, value as Readonly<Record<string, unknown>>, at);
      return;
    case "union":
      checkBranch(type, value, at);
      return;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function checkFields(
  { fields }: Extract<AvroType, { kind: "record" }>,
  value: Readonly<Record<string, unknown>>,
  at: string,
) {
  for (const { name, type, hasDefault } of fields) {
    if (Object.hasOwn(value, name)) checkAvroJson(type, value[name], `${at}.${name}`);
    else if (!hasDefault) throw new Error(`${at} must have ${name}`);
  }
  for (const name of Object.keys(value)) {
    if (!fields.some((field) => field.name === name)) throw new Error(`${at} has ${name}, which is no field`);
  }
}

/** Null, or an object that names the branch. */
function checkBranch({ branches }: Extract<AvroType, { kind: "union" }>, value: unknown, at: string): void {
  const name = value === null ? "null" : isObject(value) ? Object.keys(value as object)[0] : undefined;
  const branch = branches.find((one) => one.name === name);
  if (branch === undefined)
    throw new Error(`${at} must be null or name one of ${branches.map((one) => one.name).join(", ")}`);
  if (value !== null) checkAvroJson(branch.type, (value as Readonly<Record<string, unknown>>)[branch.name], at);
}

/** Throws an Error if the bytes are not exactly one value of the type. */
export function checkAvroBinary(type: AvroType, bytes: Uint8Array): void {
  const reader = new Reader(bytes);
  reader.value(type, 0);
  if (reader.left > 0) throw new Error(`${reader.left} bytes follow the message`);
}

class Reader {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get left(): number {
    return this.bytes.length - this.at;
  }

  value(type: AvroType, depth: number): void {
    if (depth > MAX_DEPTH) throw new Error("the message is nested too deeply");
    switch (type.kind) {
      case "null":
        return;
      case "boolean":
        this.skip(1);
        return;
      case "int":
      case "long":
        this.long();
        return;
      case "float":
        this.skip(4);
        return;
      case "double":
        this.skip(8);
        return;
      case "bytes":
      case "string":
        this.skip(this.long());
        return;
      case "fixed":
        this.skip(type.size);
        return;
      case "enum":
        this.index(type.symbols.length);
        return;
      case "record":
        for (const field of type.fields) this.value(field.type, depth + 1);
        return;
      case "union":
        this.branch(type, depth);
        return;
      case "array":
      case "map":
        this.blocks(type, depth);
        return;
    }
  }

  private skip(count: number): void {
    if (count < 0 || count > this.left) throw new Error("the message ends too early");
    this.at += count;
  }

  private index(count: number): void {
    const index = this.long();
    if (index < 0 || index >= count) throw new Error(`the message has the value ${index} of ${count}`);
  }

  private branch({ branches }: Extract<AvroType, { kind: "union" }>, depth: number): void {
    const index = this.long();
    const branch = branches[index];
    if (branch === undefined) throw new Error(`the message has the branch ${index} of a union of ${branches.length}`);
    this.value(branch.type, depth + 1);
  }

  /** A negative count is followed by the size of the block. */
  private blocks({ kind, values }: Extract<AvroType, { kind: "array" | "map" }>, depth: number): void {
    let items = 0;
    for (let count = this.long(); count !== 0; count = this.long()) {
      if (count < 0) this.long();
      items += Math.abs(count);
      if (items > MAX_ITEMS) throw new Error(`the message has a list of more than ${MAX_ITEMS} values`);
      for (let i = Math.abs(count); i > 0; i--) {
        if (kind === "map") this.skip(this.long());
        this.value(values, depth + 1);
      }
    }
  }

  /** Zigzag, seven bits at a time. Numbers beyond 2^53 lose their lowest bits, which no check reads. */
  private long(): number {
    let sum = 0;
    for (let shift = 0; shift < 10; shift++) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new Error("the message ends too early");
      sum += (byte & 0x7f) * 2 ** (7 * shift);
      if (byte < 0x80) return sum % 2 === 0 ? sum / 2 : -(sum + 1) / 2;
    }
    throw new Error("the message has a number of more than 64 bits");
  }
}
