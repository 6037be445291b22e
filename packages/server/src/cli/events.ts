/** The events of an SSE response, as far as our server writes them; for `channel tail` and `session tail`. Comments are passed over. */
export interface SseEvent {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: string;
}

const MAX_EVENT_CHARS = 64 * 1024 * 1024;

/** Ends with the response, and throws when that breaks off. */
export async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<SseEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of body) {
    text += decoder.decode(piece, { stream: true });
    let from = 0;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n", from)) {
      const event = parse(text.slice(from, end));
      if (event !== undefined) yield event;
      from = end + 2;
    }
    text = text.slice(from);
    if (text.length > MAX_EVENT_CHARS) throw new Error("the server sends an event without end");
  }
}

function parse(block: string): SseEvent | undefined {
  let event = "message";
  let id: string | undefined;
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "event") event = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
  return data.length === 0 ? undefined : { event, id, data: data.join("\n") };
}
