/**
 * A value that its caller has encoded already and that goes over the wire as it is. `append` and `publish` of a stream, and
 * `write` of a channel's publisher, take it in place of a value.
 *
 * Invariant: the client neither parses nor changes the body, so numbers of any size keep their digits. No schema checks it.
 */
export class Encoded {
  /**
   * To a stream: the body of one request, bytes or text; of JSON, an array is as many messages as it has elements. To a
   * channel: the JSON text of one payload.
   */
  constructor(readonly body: string | Uint8Array) {}

  get text(): string {
    return typeof this.body === "string" ? this.body : new TextDecoder().decode(this.body);
  }
}
