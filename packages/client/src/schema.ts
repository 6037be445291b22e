/**
 * Types from a schema of the user's choice: the part of the Standard Schema interface that this client needs, so that it
 * depends on no schema library. Used by stream handles.
 *
 * Invariants: an appended value is checked and sent unchanged; a value that is read is the schema's output.
 */
import { SluiceError } from "./error.ts";

export interface Schema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Throws the schema's objections. The check must be synchronous, because an append keeps its place in the order. */
export function checkValue(schema: Schema, value: unknown): void {
  const result = schema["~standard"].validate(value);
  if (result instanceof Promise) {
    result.catch(() => {});
    throw new SluiceError("invalid-value", "a schema that answers later cannot check what is appended");
  }
  if (result.issues !== undefined) throw invalid(result.issues);
}

export async function parseValue<T>(schema: Schema<unknown, T>, value: unknown, offset: string): Promise<T> {
  const result = await schema["~standard"].validate(value);
  if (result.issues !== undefined) throw invalid(result.issues, offset);
  return result.value;
}

function invalid(issues: readonly SchemaIssue[], offset?: string): SluiceError {
  const says = issues.map(({ message, path }) =>
    path?.length ? `${path.map(nameOf).join(".")}: ${message}` : message,
  );
  return new SluiceError("invalid-value", says.join("; ") || "the value does not fit the schema", { issues, offset });
}

function nameOf(part: PropertyKey | { readonly key: PropertyKey }): string {
  return String(typeof part === "object" ? part.key : part);
}
