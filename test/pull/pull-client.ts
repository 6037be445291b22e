/** A client of the WebSocket `/pull`, for tests: a frame and its answer, and the messages of its streams. */
import { onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { within } from "../e2e/server.ts";

export interface PulledMessage {
  readonly ackId: string;
  readonly messageId: string;
  readonly data: string;
  readonly attempt: number;
}

export interface Told {
  readonly type: string;
  readonly ref?: number;
  readonly code?: string;
  readonly stream?: string;
  readonly messages?: readonly PulledMessage[];
  readonly [member: string]: unknown;
}

export class PullClient {
  readonly frames: Told[] = [];
  private readonly answers = new Map<number, (frame: Told) => void>();
  private refs = 0;

  private constructor(readonly socket: WebSocket) {
    socket.on("message", (data) => {
      const frame: Told = JSON.parse(data.toString());
      this.frames.push(frame);
      if (frame.ref !== undefined) this.answers.get(frame.ref)?.(frame);
    });
    onTestFinished(() => socket.terminate());
  }

  static open(url: string, token?: string, project = "default"): Promise<PullClient> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const client = new PullClient(new WebSocket(`${url.replace("http:", "ws:")}/v1/${project}/pull`, { headers }));
    const opening = new Promise<PullClient>((resolve, reject) => {
      client.socket.once("open", () => resolve(client));
      client.socket.once("error", reject);
    });
    return within(15_000, "a WebSocket", opening);
  }

  ask(type: string, frame: object = {}): Promise<Told> {
    const ref = ++this.refs;
    const answer = new Promise<Told>((resolve) => this.answers.set(ref, resolve));
    this.socket.send(JSON.stringify({ type, ref, ...frame }));
    return within(20_000, `the answer to ${type}`, answer);
  }

  /** As `ask`, and throws if the answer is an error. */
  async done(type: string, frame: object = {}): Promise<Told> {
    const answer = await this.ask(type, frame);
    if (answer.type !== "ok") throw new Error(`${type} was refused: ${JSON.stringify(answer)}`);
    return answer;
  }

  publish(topic: string, ...texts: string[]): Promise<Told> {
    const messages = texts.map((text) => ({ data: Buffer.from(text).toString("base64") }));
    return this.done("publish", { topic, messages });
  }

  async pull(subscription: string, maxMessages = 10, waitMs = 0): Promise<readonly PulledMessage[]> {
    return (await this.done("pull", { subscription, maxMessages, waitMs })).messages!;
  }

  async ack(subscription: string, ...messages: readonly PulledMessage[]): Promise<unknown> {
    return (await this.done("ack", { subscription, ackIds: messages.map(({ ackId }) => ackId) })).outcomes;
  }

  get delivered(): string[] {
    return this.frames.filter(({ type }) => type === "messages").flatMap(({ messages }) => textsOf(messages!));
  }
}

export function textsOf(messages: readonly PulledMessage[]): string[] {
  return messages.map(({ data }) => Buffer.from(data, "base64").toString());
}
