/**
 * The event stream format, piece by piece: `push` takes text cut anywhere and returns the complete events. Works with
 * `fetch`, because an EventSource can send neither a token nor a chosen position. Used by events.ts.
 *
 * Invariants: cuts make no difference. An event or a line beyond the bound is an error and is not buffered. The work is
 * linear in the text, however small the pieces of a long line are.
 */
import { SluiceError } from "./error.ts";

export interface SseEvent {
  readonly event: string;
  readonly data: string;
  /** The latest id, from this event or an earlier one. */
  readonly id: string;
}

const NUL = "\u0000";

export class SseParser {
  private line = "";
  private data: string[] = [];
  private dataChars = 0;
  private event = "";
  private id = "";
  /** The last piece ended with CR; an LF at the start of the next piece belongs to it. */
  private endedWithReturn = false;

  constructor(private readonly maxChars: number) {}

  push(text: string): SseEvent[] {
    const events: SseEvent[] = [];
    let from = this.endedWithReturn && text.startsWith("\n") ? 1 : 0;
    if (text !== "") this.endedWithReturn = text.endsWith("\r");
    let feed = text.indexOf("\n", from);
    let carriage = text.indexOf("\r", from);
    while (feed >= 0 || carriage >= 0) {
      const end = carriage < 0 || (feed >= 0 && feed < carriage) ? feed : carriage;
      this.bound(end - from);
      this.endLine(this.line + text.slice(from, end), events);
      this.line = "";
      from = end === carriage && feed === end + 1 ? end + 2 : end + 1;
      if (feed >= 0 && feed < from) feed = text.indexOf("\n", from);
      if (carriage >= 0 && carriage < from) carriage = text.indexOf("\r", from);
    }
    this.bound(text.length - from);
    this.line += text.slice(from);
    return events;
  }

  private bound(moreChars: number): void {
    if (this.dataChars + this.line.length + moreChars > this.maxChars) {
      throw new SluiceError("bad-answer", `an event is longer than ${this.maxChars} characters`);
    }
  }

  private endLine(line: string, events: SseEvent[]): void {
    if (line === "") {
      if (this.data.length > 0)
        events.push({ event: this.event || "message", data: this.data.join("\n"), id: this.id });
      this.event = "";
      this.data = [];
      this.dataChars = 0;
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") {
      this.data.push(value);
      this.dataChars += value.length + 1;
    } else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes(NUL)) this.id = value;
  }
}
