/**
 * A value that the caller has already encoded; the client sends it unchanged. A stream's `append` and `publish`, and the
 * `write` of a channel's publisher, accept it in place of a value.
 *
 * Invariants: the client neither parses nor changes the body, so numbers of any size keep their digits. No schema checks it.
 */
export class Encoded {
  /**
   * For a stream: the body of one request, bytes or text; a JSON array is one message per element. For a channel: the JSON
   * text of one payload.
   */
  constructor(readonly body: string | Uint8Array) {}

  get text(): string {
    return typeof this.body === "string" ? this.body : new TextDecoder().decode(this.body);
  }
}
