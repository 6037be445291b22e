/**
 * How a command waits for a server that cannot answer now: longer each time, as long as the server asks for at least, and saying so
 * once. The commands that go on by themselves share it; what trying again cannot mend they throw before they come here.
 */
import type { CliError } from "./exit.ts";
import { say } from "./terminal.ts";

const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 5_000;

export class Patience {
  private failures = 0;

  constructor(private readonly signal?: AbortSignal) {}

  /** After a failure; rejects when the command is ended meanwhile. */
  async wait(fault: CliError, atLeastMs = 0): Promise<void> {
    if (this.failures === 0) say(`${fault.message.split(";")[0]}; trying again`);
    const backoffMs = Math.min(FIRST_WAIT_MS * 2 ** this.failures, MAX_WAIT_MS) * (0.75 + Math.random() / 2);
    this.failures++;
    await pause(Math.max(backoffMs, atLeastMs), this.signal);
  }

  /** After a success. */
  rest(): void {
    if (this.failures > 0) say("connected again");
    this.failures = 0;
  }
}

/** Rejects when the signal ends it early. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
  signal?.throwIfAborted();
}
