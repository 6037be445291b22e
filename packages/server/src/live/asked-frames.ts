/**
 * The requests of a client over its WebSocket: `{type, ref?, …}` in, `{type: "ok" | "error", ref, …}` out. The live routes open
 * one per socket.
 *
 * Invariants: requests are answered in their order, one at a time, so that a later one sees what an earlier one has stored. A
 * malformed frame is answered, not fatal.
 */
import { z } from "zod";
import { badBody, checkedJson, parseFrame } from "../core/json-body.ts";
import type { Socket } from "../core/socket.ts";
import { problemOf } from "../engine/problem.ts";

const REF = { error: "must be a string of at most 64 characters or a number" };
const outer = z.looseObject(
  {
    type: z.string({ error: "must be a string" }),
    ref: z.union([z.string().max(64, REF), z.number()], REF).optional(),
  },
  { error: "must be a JSON object" },
);

type Handle = (body: unknown) => Promise<object>;

export class AskedFrames {
  private readonly handlers = new Map<string, Handle>();

  constructor(
    socket: Socket,
    answer: (frame: object) => void,
    private readonly report: (what: string, fault: unknown) => void,
  ) {
    socket.onText(async (text) => answer(await this.answerTo(text)));
  }

  /** `work` gets the rest of the frame, checked, and returns the fields of the answer. */
  on<S extends z.ZodType>(type: string, schema: S, work: (body: z.output<S>) => Promise<object>): void {
    this.handlers.set(type, async (body) => work(checkedJson(schema, body)));
  }

  private async answerTo(text: string): Promise<object> {
    let ref: string | number | undefined;
    try {
      const { type, ref: given, ...body } = checkedJson(outer, parseFrame(text));
      ref = given;
      const handle = this.handlers.get(type);
      if (handle === undefined) throw badBody(`type must be one of ${[...this.handlers.keys()].join(", ")}`);
      return { type: "ok", ref, ...(await handle(body)) };
    } catch (fault) {
      const report = (unexpected: unknown) =>
        this.report("a request over a live connection failed; the client got an error", unexpected);
      return { type: "error", ref, ...problemOf(fault, report) };
    }
  }
}
