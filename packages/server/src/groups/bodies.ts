/** The JSON bodies of the group routes. The same schemas validate requests and appear in the OpenAPI document. */
import { parseOffset } from "@sluice/protocol";
import { z } from "zod";
import type { AskedStart } from "./group-rules.ts";

const OBJECT = { error: "must be a JSON object" };
const MODE = { error: "must be share or queue" };
const FILTER = { error: "must be a topic filter" };
const FROM = { error: "must be earliest, latest, an offset that this server has given out, or a time in epoch ms" };

export const mode = z.enum(["share", "queue"], MODE);
const filter = z.string(FILTER).min(1, FILTER);

/** Where a group begins, or is moved to. */
export const from = z
  .union([z.string(FROM), z.int(FROM).min(0, FROM)], FROM)
  .refine((value) => startOf(value) !== undefined, FROM)
  .transform((value) => startOf(value)!);

function startOf(value: string | number): AskedStart | undefined {
  if (typeof value === "number") return { kind: "time", atMs: value };
  if (value === "earliest" || value === "latest") return { kind: value };
  const position = parseOffset(value);
  return position && { kind: "position", position };
}

const COUNT = { error: "must be a whole number from 1 on" };
const PATH = { error: "must be a stream's path" };

export const declaration = z.strictObject(
  {
    filter,
    mode,
    from: from.optional(),
    leaseMs: z
      .int(COUNT)
      .min(1, COUNT)
      .max(86_400_000, COUNT)
      .describe("Of a queue: how long a message is leased.")
      .optional(),
    maxAttempts: z
      .int(COUNT)
      .min(1, COUNT)
      .max(65_535, COUNT)
      .describe("Of a queue, with deadLetter: after so many attempts a message goes there.")
      .optional(),
    deadLetter: z
      .string(PATH)
      .min(1, PATH)
      .describe("Of a queue: the stream for messages that failed too often.")
      .optional(),
  },
  OBJECT,
);

/** Which group of a name is meant; needed only if several have it. */
const which = { filter: filter.optional(), mode: mode.optional() };
export const move = z.strictObject({ ...which, to: from }, OBJECT);
export const choice = z.strictObject(which, OBJECT);

export const groupKey = z.object({ group: z.string(), mode, filter: z.string() });
export const listing = z.object({ groups: z.array(groupKey), next: z.string().optional() });

const backlog = {
  lag: z.int().describe("Messages that are published and not acknowledged."),
  pending: z.int().describe("Messages that are delivered and not acknowledged."),
  oldestUnackedMs: z.int().nullable().describe("The age of the oldest message that is not acknowledged."),
};
export const info = groupKey.extend({
  source: z.enum(["leader", "stored"]).describe("`stored`: no leader answered, so members are unknown."),
  leader: z.object({ node: z.string(), epoch: z.int() }).nullable(),
  members: z.array(z.object({ id: z.string(), streams: z.array(z.string()), ...backlog })),
  streams: z.array(
    z.object({
      stream: z.string(),
      status: z.string(),
      borrower: z.string().nullable().describe("The member that holds the stream."),
      progress: z.string(),
      tail: z.string(),
      ...backlog,
    }),
  ),
  ...backlog,
  isCut: z.boolean().optional().describe("The group has more streams than are listed and summed up here."),
});
export const redriven = z.object({
  redriven: z.int().describe("Letters that went back to their streams."),
  stayed: z.int().describe("Letters whose stream is gone, closed or of another type."),
  more: z.boolean().describe("Further letters are left for another request."),
});
