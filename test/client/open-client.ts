/**
 * A client for one test that retries quickly, and the few operations that most tests of the client share.
 *
 * Invariants: a retry waits at most 20 ms, so that faults cost a test little time.
 */
import { type ReadOptions, Sluice, type SluiceOptions, type Stream } from "@sluice/client";
import { expect, onTestFinished } from "vitest";

export const QUICK = { minMs: 1, maxMs: 20, giveUpMs: 20_000 };

export function openClient(url: string, options: Partial<SluiceOptions> = {}): Sluice {
  return new Sluice({ url, retries: QUICK, ...options });
}

/** Fails a test that leaves a rejected promise unhandled. */
export function noUnhandledRejections(): void {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(async () => {
    await new Promise((resolve) => setTimeout(resolve, 0));
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });
}

/** The values that a read yields; a gap becomes the word. */
export async function valuesOf<T>(stream: Stream<T>, options: ReadOptions = {}, count = Number.POSITIVE_INFINITY) {
  const values: (T | "gap")[] = [];
  for await (const item of stream.read(options)) {
    values.push(item.type === "gap" ? "gap" : item.value);
    if (values.length >= count) break;
  }
  return values;
}

export function numbersTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}
