/**
 * The description of a route: the words and schemas that the HTTP door turns into OpenAPI. Each feature describes its routes in
 * its own `describe.ts`.
 */
import type { ErrorCode } from "@sluice/protocol";
import type { z } from "zod";

/** JSON Schema, as far as the descriptions need it. */
export type Schema = Readonly<Record<string, unknown>>;

/** A header or query parameter. */
export interface Parameter {
  readonly name: string;
  readonly says: string;
  readonly schema: Schema;
}

export interface Content {
  /** Keyed by media type. A zod schema validates requests, or is what tests check answers against. */
  readonly [mediaType: string]: z.ZodType | Schema;
}

export interface Outcome {
  readonly says: string;
  readonly headers?: readonly Parameter[];
  readonly content?: Content;
}

export interface Description {
  readonly summary: string;
  readonly says?: string;
  readonly query?: readonly Parameter[];
  readonly headers?: readonly Parameter[];
  readonly body?: { readonly isRequired: boolean; readonly content: Content };
  /** Keyed by status. */
  readonly answers: Readonly<Record<number, Outcome>>;
  /** The route's own refusals; the door adds those of auth, of the address and of the server. */
  readonly refuses: readonly ErrorCode[];
}

export function parameter(name: string, says: string, schema: Schema): Parameter {
  return { name, says, schema };
}

export const text: Schema = { type: "string" };
export const flag: Schema = { type: "string", enum: ["true"] };
export const count = (minimum = 0, maximum: number = Number.MAX_SAFE_INTEGER): Schema => ({
  type: "integer",
  minimum,
  maximum,
});
export const upTo = (maxLength: number): Schema => ({ type: "string", minLength: 1, maxLength });
export const offset: Schema = { type: "string", description: "Opaque; sorts as text." };
/** Bytes of any kind. */
export const bytes: Schema = {};
