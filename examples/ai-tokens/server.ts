/**
 * What is behind the page: the publisher of the answers, and the page itself. `main.ts` starts it.
 *
 * Invariants: an answer is written to its end, with or without viewers. The number of answers in progress is bounded.
 */
import { randomUUID } from "node:crypto";
import { Sluice } from "@sluice/client";
import type { RunningExample, Stage } from "../web/run.ts";
import { type Model, madeUpModel } from "./answer.ts";

const MAX_QUESTION_CHARS = 200;
const ANSWERS_AT_ONCE = 32;

export async function startExample(
  { web, sluiceUrl, publicUrl = sluiceUrl }: Stage,
  model: Model = madeUpModel,
): Promise<RunningExample> {
  const inTheMaking = new Set<Promise<void>>();
  const closing = new AbortController();
  const sluice = new Sluice({ url: sluiceUrl });
  await web.show(new URL("page/", import.meta.url), publicUrl);
  web.on("/ask", async (body) => {
    const id = await ask(body.slice(0, MAX_QUESTION_CHARS));
    if (id !== undefined) return { status: 201, body: { id } };
    return { status: 503, headers: { "Retry-After": "10" }, body: "Too many answers at once." };
  });

  /** Opens a channel and lets the publisher run: it depends neither on the request nor on the tab that made it. */
  async function ask(question: string): Promise<string | undefined> {
    if (inTheMaking.size >= ANSWERS_AT_ONCE) return undefined;
    const id = randomUUID();
    const answer = sluice.channel(id).publisher({ start: { model: "made-up-1", question } });
    const publishing = (async () => {
      try {
        // The publisher sends small requests, 16 a second, and retries each until it is acknowledged.
        const stopped = AbortSignal.any([closing.signal, answer.signal]);
        for await (const token of model(stopped)) await answer.write(token);
        await answer.end();
      } catch (error) {
        // A viewer has pressed Stop: the answer ends where it is.
        if (answer.signal.aborted) return void (await answer.end({ stopped: true }).catch(() => {}));
        // Readers get the error. If that fails too, they see the server itself disconnect.
        await answer.fail(error).catch(() => {});
      }
    })();
    inTheMaking.add(publishing);
    void publishing.finally(() => inTheMaking.delete(publishing));
    // The channel exists before any viewer learns its id.
    await answer.flush();
    return id;
  }

  async function close(): Promise<void> {
    closing.abort(new Error("the example was stopped"));
    await Promise.all(inTheMaking);
  }

  return { close };
}
