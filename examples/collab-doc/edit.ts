/**
 * A message of a document's stream: what one person changed in one step. The page and the server append them.
 *
 * Invariants: whatever else was appended to the stream is recognized and skipped, so that it harms no page.
 */
import type { Id, Operation, Run } from "./replica.ts";

export interface Edit {
  readonly by: string;
  readonly operations: readonly Operation[];
}

/** The document of an address without a name. */
export const FIRST_DOCUMENT = "packing-list";

const MAX_RUN = 1_000_000;

export function streamOf(name: string): string {
  return `doc/${name}`;
}

/** The edit in a message; undefined if it is none. */
export function editIn(value: unknown): Edit | undefined {
  const { by, operations } = (value ?? {}) as Partial<Edit>;
  if (typeof by !== "string" || !Array.isArray(operations) || !operations.every(isOperation)) return undefined;
  return { by, operations };
}

function isOperation(value: unknown): value is Operation {
  const { type, id, after, text, runs } = (value ?? {}) as Record<string, unknown>;
  if (type === "insert") return isId(id) && (after === undefined || isId(after)) && typeof text === "string";
  return type === "delete" && Array.isArray(runs) && runs.every(isRun);
}

function isId(value: unknown): value is Id {
  return Array.isArray(value) && Number.isSafeInteger(value[0]) && value[0] > 0 && typeof value[1] === "string";
}

function isRun(value: unknown): value is Run {
  const length = isId(value) ? (value as unknown as Run)[2] : 0;
  return Number.isSafeInteger(length) && length > 0 && length <= MAX_RUN;
}
