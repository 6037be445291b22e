/**
 * Sends messages to a channel: numbers them, puts as many into a request as it may carry, keeps to the pace that channels allow and
 * sends again what was not answered. `channel publish` uses it.
 *
 * What must stay true: one request at a time, in order; a request that is sent again is the same one, so that its sequences tell the
 * server what it has already.
 */
import { header } from "@sluice/protocol";
import { CliError, EXIT } from "../exit.ts";
import { Patience, pause } from "../patience.ts";
import { type Remote, refusal } from "../remote.ts";

export type Phase = "START" | "DELTA" | "END" | "ERROR";

export interface Outgoing {
  readonly phase: Phase;
  /** As JSON; left out when there is none. */
  readonly payload?: string | undefined;
  readonly messageId?: string | undefined;
}

/** Within what a channel takes by default: 20 requests a second, of 16 KiB. */
const PACE_MS = 60;
const REQUEST_BYTES = 15 * 1_024;
const PATIENCE_MS = 60_000;

export class Sender {
  offset: string | undefined;
  private sentAt = Number.NEGATIVE_INFINITY;
  private messages = 0;

  constructor(
    private readonly remote: Remote,
    private readonly url: string,
    private sequence: number,
  ) {}

  async send(outgoing: readonly Outgoing[]): Promise<void> {
    let waiting: string[] = [];
    let bytes = 0;
    for (const one of outgoing) {
      const text = this.numbered(one);
      const size = Buffer.byteLength(text) + 1;
      if (waiting.length > 0 && bytes + size > REQUEST_BYTES) {
        await this.request(waiting);
        waiting = [];
        bytes = 0;
      }
      waiting.push(text);
      bytes += size;
    }
    if (waiting.length > 0) await this.request(waiting);
  }

  private numbered({ phase, payload, messageId }: Outgoing): string {
    const id = messageId === undefined ? "" : `"messageId":${JSON.stringify(messageId)},`;
    const carried = payload === undefined ? "" : `,"payload":${payload}`;
    return `{${id}"phase":"${phase}","sequence":${this.sequence++}${carried}}`;
  }

  private async request(messages: readonly string[]): Promise<void> {
    const body = `{"messages":[${messages.join(",")}]}`;
    const giveUpAt = performance.now() + PATIENCE_MS;
    const patience = new Patience();
    for (;;) {
      await pause(Math.max(0, this.sentAt + PACE_MS - performance.now()));
      this.sentAt = performance.now();
      try {
        await this.attempt(body);
        patience.rest();
        this.messages += messages.length;
        return;
      } catch (fault) {
        if (!(fault instanceof Refused)) throw fault;
        const isHopeless = fault.error.exitCode !== EXIT.unavailable || performance.now() >= giveUpAt;
        if (isHopeless) throw this.told(fault.error);
        // Being told to slow down is no trouble worth a line.
        if (fault.retryAfterMs !== undefined) await pause(fault.retryAfterMs);
        else await patience.wait(fault.error);
      }
    }
  }

  private async attempt(body: string): Promise<void> {
    let response: Response;
    try {
      response = await this.remote.send("POST", this.url, {
        headers: { [header.contentType]: "application/json" },
        body,
      });
    } catch (fault) {
      if (fault instanceof CliError) throw new Refused(fault, undefined);
      throw fault;
    }
    if (!response.ok) {
      const seconds = Number(response.headers.get(header.retryAfter) ?? Number.NaN);
      const isPace = response.status === 429 && Number.isFinite(seconds);
      throw new Refused(await refusal(response), isPace ? seconds * 1_000 : undefined);
    }
    this.offset = ((await response.json()) as { offset?: string }).offset;
  }

  /** Whoever goes on must know how far it got. */
  private told(fault: CliError): CliError {
    if (this.messages === 0) return fault;
    return new CliError(
      fault.exitCode,
      `${fault.message}; ${this.messages} messages were published before, up to ${this.offset}`,
    );
  }
}

/** A refusal, and when the server wants to be asked again. */
class Refused extends Error {
  constructor(
    readonly error: CliError,
    readonly retryAfterMs: number | undefined,
  ) {
    super(error.message);
  }
}
