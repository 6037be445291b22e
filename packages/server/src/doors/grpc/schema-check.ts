/**
 * Whether a definition is a schema, and whether a message follows it: Avro (`avro-data.ts`) and protocol buffers, as JSON or binary.
 *
 * Invariants: a definition of protocol buffers has one message at its top level and imports nothing, as with Google's service.
 */
import protobuf from "protobufjs";
import { Refusal } from "../../core/refusal.ts";
import type { NewSchema } from "../../pull/contract.ts";
import { type AvroType, parseAvro } from "./avro.ts";
import { checkAvroBinary, checkAvroJson } from "./avro-data.ts";

export type Encoding = "JSON" | "BINARY";

/** Throws a Refusal for a definition that cannot be parsed. */
export function checkDefinition(schema: NewSchema): void {
  if (schema.type === "AVRO") avroOf(schema);
  else messageOf(schema);
}

/** Returns what throws a Refusal for a message that does not follow the schema, which is parsed once. */
export function checkerOf(schema: NewSchema, encoding: Encoding): (message: Uint8Array) => void {
  const check =
    schema.type === "AVRO" ? avroCheck(avroOf(schema), encoding) : protobufCheck(messageOf(schema), encoding);
  return (message) => {
    try {
      check(message);
    } catch (fault) {
      const why = (fault as Error).message;
      throw new Refusal("bad-request", `Invalid data in message: Message failed schema validation: ${why}.`);
    }
  };
}

function avroOf({ definition }: NewSchema): AvroType {
  try {
    return parseAvro(definition);
  } catch (fault) {
    throw new Refusal("bad-request", `Invalid schema definition: ${(fault as Error).message}.`);
  }
}

function avroCheck(type: AvroType, encoding: Encoding): (message: Uint8Array) => void {
  return encoding === "BINARY"
    ? (message) => checkAvroBinary(type, message)
    : (message) => checkAvroJson(type, json(message));
}

function messageOf({ definition }: NewSchema): protobuf.Type {
  try {
    const { root, imports = [] } = protobuf.parse(definition, new protobuf.Root());
    if (imports.length > 0) throw new Error("it must import nothing");
    root.resolveAll();
    const [message, ...more] = typesIn(root);
    if (message === undefined || more.length > 0) throw new Error("it must have one message at its top level");
    return message;
  } catch (fault) {
    throw new Refusal("bad-request", `Invalid schema definition: ${(fault as Error).message}.`);
  }
}

/** The messages at the top level, within the package if there is one. */
function typesIn(space: protobuf.NamespaceBase): protobuf.Type[] {
  return space.nestedArray.flatMap((one) => {
    if (one instanceof protobuf.Type) return [one];
    return one instanceof protobuf.Namespace ? typesIn(one) : [];
  });
}

function protobufCheck(type: protobuf.Type, encoding: Encoding): (message: Uint8Array) => void {
  if (encoding === "BINARY") return (message) => void type.decode(message);
  return (message) => {
    const value = json(message);
    if (typeof value !== "object" || value === null) throw new Error("it must be a JSON object");
    for (const name of Object.keys(value)) {
      const isKnown = type.fieldsArray.some((field) => field.name === name || snakeCase(field.name) === name);
      if (!isKnown) throw new Error(`${name} is no field of ${type.name}`);
    }
    const problem = type.verify(type.fromObject(value as Record<string, unknown>));
    if (problem !== null) throw new Error(problem);
  };
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function json(message: Uint8Array): unknown {
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(message));
}
