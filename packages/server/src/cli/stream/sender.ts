/**
 * Sends messages to a stream, one request after the other, and knows how far it got. `stream append` and `publish` share it; which
 * address they send to makes the difference.
 */
import { header } from "@sluice/protocol";
import { isJson } from "../../streams/state.ts";
import { CliError, usage } from "../exit.ts";
import type { Remote } from "../remote.ts";
import { say } from "../terminal.ts";
import { jsonOf, linesOf, wholeInput } from "./lines.ts";

export class Sender {
  offset: string | undefined;
  private messages = 0;

  constructor(
    private readonly remote: Remote,
    private readonly url: string,
    readonly type: string,
    private readonly heard: (response: Response) => Promise<void> = async () => {},
  ) {}

  async send(body: string | Uint8Array, count: number): Promise<void> {
    let response: Response;
    try {
      response = await this.remote.call("POST", this.url, { headers: { [header.contentType]: this.type }, body });
    } catch (fault) {
      if (!(fault instanceof CliError)) throw fault;
      throw this.told(fault);
    }
    this.offset = response.headers.get(header.streamNextOffset) ?? undefined;
    this.messages += count;
    await this.heard(response);
  }

  /** Whoever retries must know how far it got. */
  told(fault: CliError): CliError {
    if (this.messages === 0) return fault;
    return new CliError(
      fault.exitCode,
      `${fault.message}; ${this.messages} messages were appended before, up to ${this.offset}`,
    );
  }
}

/** The stream's content type. Whoever may write but not read has to say it, or has said it by other means. */
export async function typeOf(remote: Remote, path: string, otherwise: string | undefined): Promise<string> {
  const response = await remote.send("HEAD", remote.streamUrl(path));
  if (response.status === 403 && otherwise !== undefined) return otherwise;
  if (response.status === 403) throw usage("this token cannot look at the stream; give its content type with --type");
  if (!response.ok) throw await remote.refusal("HEAD", remote.streamUrl(path), response);
  return response.headers.get("content-type") ?? "application/octet-stream";
}

export function sayWhatIsRead(message: string | undefined): void {
  if (message === undefined && process.stdin.isTTY) say("reading from the terminal; end with Ctrl-D");
}

/** The argument, or all of standard input, as one body. */
export async function sendOne(sender: Sender, message: string | undefined): Promise<void> {
  const body = message ?? (await wholeInput(process.stdin));
  if (body.length === 0) {
    const what = message === undefined ? "standard input is empty" : "a message cannot be empty";
    throw usage(`there is nothing to append: ${what}`);
  }
  await sender.send(body, 1);
}

/** Every line of standard input as a message of its own, as it comes. */
export async function sendLines(sender: Sender): Promise<void> {
  for await (const lines of linesOf(process.stdin)) {
    const bodies = isJson(sender.type)
      ? lines.map(jsonOf).flatMap((text) => (text === "" ? [] : [`[${text}]`]))
      : lines.map(({ bytes }) => bytes);
    for (const body of bodies) await sender.send(body, 1);
  }
}
