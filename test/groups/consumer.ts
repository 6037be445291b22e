/** A consumer over its WebSocket, and a server with helpers for the tests of groups. */
import type { ServerOptions } from "@sluice/server";
import { expect, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { eventually, serverForTest, within } from "../e2e/server.ts";

export interface Frame {
  readonly type: string;
  readonly id?: string;
  readonly stream?: string;
  readonly offset?: string;
  readonly epoch?: number;
  readonly payload?: unknown;
  readonly messages?: readonly { readonly offset: string; readonly payload: unknown }[];
  readonly code?: string;
  readonly detail?: string;
  readonly through?: string;
  readonly lease?: number;
  readonly attempt?: number;
}

export class Consumer {
  readonly frames: Frame[] = [];

  private constructor(
    readonly socket: WebSocket,
    private readonly acks: boolean,
  ) {
    socket.on("message", (data) => this.take(JSON.parse(data.toString())));
    onTestFinished(() => socket.terminate());
  }

  static open(url: string, member: string, acks = true): Promise<Consumer> {
    const address = `${url.replace("http:", "ws:")}/v1/consume?member=${member}`;
    const consumer = new Consumer(new WebSocket(address), acks);
    const opening = new Promise<Consumer>((resolve, reject) => {
      consumer.socket.once("open", () => resolve(consumer));
      consumer.socket.once("error", reject);
    });
    return within(15_000, "a WebSocket", opening);
  }

  private take(frame: Frame): void {
    this.frames.push(frame);
    if (frame.type !== "message" || !this.acks) return;
    const { id, stream, offset, epoch, lease } = frame;
    this.send({ type: "ack", id, stream, offset, epoch, lease });
  }

  send(frame: object): void {
    this.socket.send(JSON.stringify(frame));
  }

  subscribe(topic: string, rest: object = {}): this {
    this.send({ type: "subscribe", id: "s", topic, ...rest });
    return this;
  }

  of(type: string): Frame[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  get payloads(): unknown[] {
    return this.of("message").map(({ payload }) => payload);
  }

  async next(type: string, count = 1): Promise<Frame> {
    await eventually(() => {
      expect(this.of(type).length, `${type} among ${JSON.stringify(this.frames)}`).toBeGreaterThanOrEqual(count);
    });
    return this.of(type).at(-1)!;
  }
}

export async function groupServer(options: ServerOptions = {}) {
  const fixture = await serverForTest("memory", options);
  const append = (stream: string, ...values: unknown[]) =>
    fetch(`${fixture.url}/v1/stream/${stream}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(values),
    });
  const admin = async (method: string, path: string, body?: object) => {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
    const answer = await fetch(`${fixture.url}/v1/groups${path}`, init);
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  return { ...fixture, fixture, append, admin };
}
