/**
 * An SSE parser for the simulated reader: takes bytes as they arrive, returns whole events.
 *
 * Invariants: it drops the bytes of an event that never ends, as the standard says.
 */
export interface SseEvent {
  readonly event: string;
  readonly data: string;
  readonly id: string;
}

export class SseParser {
  private rest = "";
  private readonly decoder = new TextDecoder();

  /** Returns the events that these bytes complete. */
  push(bytes: Uint8Array): SseEvent[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const events: SseEvent[] = [];
    for (let end = this.rest.indexOf("\n\n"); end >= 0; end = this.rest.indexOf("\n\n")) {
      events.push(parse(this.rest.slice(0, end)));
      this.rest = this.rest.slice(end + 2);
    }
    return events;
  }
}

function parse(block: string): SseEvent {
  let event = "message";
  let id = "";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const field = line.slice(0, at);
    const value = line.slice(at + 1).replace(/^ /, "");
    if (field === "event") event = value;
    if (field === "id") id = value;
    if (field === "data") data.push(value);
  }
  return { event, data: data.join("\n"), id };
}
