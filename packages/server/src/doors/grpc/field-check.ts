/**
 * Checks the bytes of a message before they are decoded, because decoding makes objects that are many times as large. Definitions
 * runs it on every request.
 *
 * Invariants: a message that passes has at most `maxFields` fields, nested ones included, and is nested at most
 * `MAX_DEPTH` deep, and its strings are valid UTF-8.
 */
import { isUtf8 } from "node:buffer";
import protobuf from "protobufjs";
import { Refusal } from "../../core/refusal.ts";

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;

const MAX_DEPTH = 50;

/** What the fields of a message are: those of a type, texts only (the entry of a map), or unknown. */
type Fields = protobuf.Type | "texts" | undefined;

/** Throws a Refusal that says what is wrong. */
export function checkFields(bytes: Buffer, type: protobuf.Type, maxFields: number): void {
  try {
    new FieldCheck(bytes, maxFields).message(type, bytes.length);
  } catch (fault) {
    if (fault instanceof Refusal) throw fault;
    throw new Refusal("bad-request", "The request is not a valid message of its method.");
  }
}

class FieldCheck {
  private readonly reader: protobuf.Reader;
  private left: number;

  constructor(
    private readonly bytes: Buffer,
    private readonly maxFields: number,
  ) {
    this.reader = protobuf.Reader.create(bytes);
    this.left = maxFields;
  }

  message(fields: Fields, end: number, depth = 1): void {
    const { reader } = this;
    if (depth > MAX_DEPTH) throw new Refusal("bad-request", `The request is nested more than ${MAX_DEPTH} deep.`);
    while (reader.pos < end) {
      if (this.left-- === 0) throw new Refusal("bad-request", `The request has more than ${this.maxFields} fields.`);
      const tag = reader.uint32();
      const kind = tag & 7;
      if (kind === DELIMITED) {
        const stop = reader.uint32() + reader.pos;
        if (stop > end) throw new RangeError("a field ends after its message");
        this.field(fields, tag >>> 3, stop, depth);
      } else if (kind === VARINT || kind === FIXED64 || kind === FIXED32) reader.skipType(kind);
      else throw new RangeError("groups are not known");
    }
  }

  private field(fields: Fields, id: number, stop: number, depth: number): void {
    const field = fields instanceof protobuf.Type ? fields.fieldsById[id] : undefined;
    if (field instanceof protobuf.MapField) this.message("texts", stop, depth + 1);
    else if (field?.resolvedType instanceof protobuf.Type) this.message(field.resolvedType, stop, depth + 1);
    else {
      const isText = fields === "texts" || field?.type === "string";
      if (isText && !isUtf8(this.bytes.subarray(this.reader.pos, stop))) {
        throw new Refusal(
          "bad-request",
          `The request has a text that is not UTF-8${field ? ` in ${field.name}` : ""}.`,
        );
      }
      this.reader.pos = stop;
    }
  }
}
