/** Counters of streams: plain numbers that the service and the routes raise. `metrics.ts` reads them. */
import type { LoggedMessage } from "../engine/contract.ts";
import type { AppendOutcome } from "./append.ts";

export class StreamMeter {
  readonly appends = { appended: 0, duplicate: 0, refused: 0 };
  messages = 0;
  bytes = 0;
  created = 0;
  deleted = 0;
  readonly reads = { "catch-up": 0, "long-poll": 0, sse: 0 };

  /** Reads by clients of live connections that catch up, and the payload bytes that they got. */
  readonly catchUps = { requests: 0, bytes: 0 };

  append(kind: AppendOutcome["kind"], payloads: readonly Uint8Array[]): void {
    if (kind === "appended") {
      this.appends.appended++;
      this.add(payloads);
    } else if (kind === "duplicate") this.appends.duplicate++;
    else this.appends.refused++;
  }

  catchUp(messages: readonly LoggedMessage[]): void {
    this.catchUps.requests++;
    for (const { payload } of messages) this.catchUps.bytes += payload.length;
  }

  add(payloads: readonly Uint8Array[]): void {
    this.messages += payloads.length;
    for (const payload of payloads) this.bytes += payload.length;
  }
}
