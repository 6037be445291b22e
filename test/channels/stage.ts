/** A server for the tests of channels, with the calls that clients of channels make. */
import type { ServerOptions } from "@sluice/server";
import { expect } from "vitest";
import type { EngineName } from "../e2e/server.ts";
import { type Stage as BareStage, openStage } from "../e2e/stage.ts";
import { ask } from "../support/ask.ts";

export type { Fault } from "../e2e/stage.ts";

export interface Stage extends BareStage {
  channel(id: string): Channel;
}

export async function stage(engineName: EngineName, options: ServerOptions = {}): Promise<Stage> {
  const bare = await openStage(engineName, options);
  return Object.assign(bare, { channel: (id: string) => new Channel(bare.url, id) });
}

export type Phase = "START" | "DELTA" | "END" | "ERROR";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: bodies are whatever the test expects of them.
  readonly body: any;
}

/** One channel as a client sees it. */
export class Channel {
  readonly address: string;

  constructor(url: string, id: string, project = "default") {
    this.address = `${url}/v1/${project}/channels/${encodeURIComponent(id)}`;
  }

  get events(): string {
    return `${this.address}/events`;
  }

  async post(body: string): Promise<Answer> {
    const asked = { method: "POST", headers: { "Content-Type": "application/json" }, body };
    const { status, headers, text } = await ask(`${this.address}/publish`, asked);
    return { status, headers, body: JSON.parse(text) };
  }

  send(phase: Phase, sequence: number, payload: unknown = null, messageId?: string): Promise<Answer> {
    return this.post(JSON.stringify({ messageId, phase, sequence, payload }));
  }

  sendAll(messages: readonly object[]): Promise<Answer> {
    return this.post(JSON.stringify({ messages }));
  }

  /** Publishes what must be taken; the offset of the last message. */
  async takes(...messages: readonly object[]): Promise<string> {
    const answer = await this.sendAll(messages);
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return answer.body.offset;
  }

  /** DELTAs with these sequences, each with its sequence as payload. */
  deltas(from: number, to: number): Promise<string> {
    const sequences = Array.from({ length: to - from + 1 }, (_, i) => from + i);
    return this.takes(...sequences.map((sequence) => ({ phase: "DELTA", sequence, payload: sequence })));
  }
}

/** What a refusal says that it is. */
export async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as { code: string }).code;
}

export const START = { phase: "START", sequence: 0 };
