/**
 * Schemas of Avro, parsed as far as a check of messages needs it. `avro-data.ts` checks messages. Pure.
 *
 * Invariants: names that a schema refers to are resolved when it is parsed.
 */
export type AvroType =
  | { readonly kind: Primitive }
  | {
      readonly kind: "record";
      fields: readonly { readonly name: string; readonly type: AvroType; readonly hasDefault: boolean }[];
    }
  | { readonly kind: "enum"; readonly symbols: readonly string[] }
  | { readonly kind: "array" | "map"; readonly values: AvroType }
  | { readonly kind: "fixed"; readonly size: number }
  | { readonly kind: "union"; readonly branches: readonly { readonly name: string; readonly type: AvroType }[] };

const PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"] as const;
type Primitive = (typeof PRIMITIVES)[number];

/** Throws an Error that says what is wrong. */
export function parseAvro(definition: string): AvroType {
  return new Parser().type(JSON.parse(definition), "");
}

interface Named {
  readonly type?: unknown;
  readonly name?: unknown;
  readonly namespace?: unknown;
  readonly fields?: unknown;
  readonly symbols?: unknown;
  readonly items?: unknown;
  readonly values?: unknown;
  readonly size?: unknown;
}

class Parser {
  private readonly known = new Map<string, AvroType>();

  type(json: unknown, space: string): AvroType {
    if (typeof json === "string") return this.byName(json, space);
    if (Array.isArray(json)) return this.union(json, space);
    if (typeof json !== "object" || json === null) throw new Error("a type must be a name, an object or a list");
    const named = json as Named;
    switch (named.type) {
      case "record":
      case "error":
        return this.record(named, space);
      case "enum": {
        const symbols = list(named.symbols, "symbols").map(text);
        return this.define(named, space, { kind: "enum", symbols });
      }
      case "fixed": {
        const { size } = named;
        if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
          throw new Error("a fixed needs a size");
        return this.define(named, space, { kind: "fixed", size });
      }
      case "array":
        return { kind: "array", values: this.type(named.items, space) };
      case "map":
        return { kind: "map", values: this.type(named.values, space) };
      default:
        return this.type(named.type, space);
    }
  }

  private byName(name: string, space: string): AvroType {
    if ((PRIMITIVES as readonly string[]).includes(name)) return { kind: name as Primitive };
    const found = this.known.get(fullName(name, space)) ?? this.known.get(name);
    if (found === undefined) throw new Error(`${JSON.stringify(name)} is no type`);
    return found;
  }

  private union(branches: readonly unknown[], space: string): AvroType {
    return {
      kind: "union",
      branches: branches.map((branch) => ({ name: branchName(branch, space), type: this.type(branch, space) })),
    };
  }

  /** It is known before its fields are parsed, because they may refer to it. */
  private record(named: Named, space: string): AvroType {
    const record: Extract<AvroType, { kind: "record" }> = { kind: "record", fields: [] };
    this.define(named, space, record);
    const own = namespaceOf(named, space);
    record.fields = list(named.fields, "fields").map((field) => {
      const { name, type } = field as Named;
      return { name: text(name), type: this.type(type, own), hasDefault: Object.hasOwn(field as object, "default") };
    });
    return record;
  }

  private define(named: Named, space: string, type: AvroType): AvroType {
    const name = fullName(text(named.name), namespaceOf(named, space));
    if (this.known.has(name)) throw new Error(`${name} is defined twice`);
    this.known.set(name, type);
    return type;
  }
}

function namespaceOf({ name, namespace }: Named, space: string): string {
  const full = String(name);
  if (full.includes(".")) return full.slice(0, full.lastIndexOf("."));
  return typeof namespace === "string" ? namespace : space;
}

function fullName(name: string, space: string): string {
  return name.includes(".") || space === "" ? name : `${space}.${name}`;
}

/** As JSON data names the branch of a union. */
function branchName(branch: unknown, space: string): string {
  if (typeof branch === "string")
    return (PRIMITIVES as readonly string[]).includes(branch) ? branch : fullName(branch, space);
  if (typeof branch !== "object" || branch === null || Array.isArray(branch)) throw new Error("a union holds no union");
  const named = branch as Named;
  return named.name === undefined ? String(named.type) : fullName(text(named.name), namespaceOf(named, space));
}

function list(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`${what} must be a list`);
  return value;
}

function text(value: unknown): string {
  if (typeof value !== "string" || value === "") throw new Error("a name must be a text");
  return value;
}
