/** A server for the tests of gRPC by hand, the messages that they send to it, and what they ask of it. */
import type { ServerOptions } from "@sluice/server";
import { expect } from "vitest";
import { type Fixture, serverForTest } from "../e2e/server.ts";
import { RawClient, text } from "./raw-client.ts";

export const MEBIBYTE = 1_024 * 1_024;
export const TOPIC = "projects/p/topics/t";
export const SUBSCRIPTION = "projects/p/subscriptions/s";
export const PULL = Buffer.concat([text(1, SUBSCRIPTION), Buffer.from([3 * 8, 1])]);
export const OPEN_STREAM = Buffer.concat([text(1, SUBSCRIPTION), Buffer.from([5 * 8, 10])]);
/** What begins a connection of HTTP/2, and what says that its client begins no more streams. */
export const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
export const GOAWAY = Buffer.from([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

export async function server(options: ServerOptions = {}): Promise<Fixture & { readonly client: RawClient }> {
  const fixture = await serverForTest("memory", { grpcPort: 0, ...options });
  return { ...fixture, client: RawClient.to(fixture.server.grpcPort!) };
}

export async function metric({ server: running }: Fixture, name: string): Promise<number> {
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(await running.metrics())?.[1]);
}

export const memoryOf = (fixture: Fixture) => metric(fixture, "sluice_http_memory_bytes");

export async function expectAlive({ server: running }: Fixture): Promise<void> {
  const client = RawClient.to(running.grpcPort!);
  expect((await client.call("Publisher/ListTopics", text(1, "projects/p"))).code).toBe(0);
}

/** Makes the topic and its subscription. */
export async function subscribed(client: RawClient): Promise<void> {
  await client.call("Publisher/CreateTopic", text(1, TOPIC));
  const made = Buffer.concat([text(1, SUBSCRIPTION), text(2, TOPIC)]);
  expect((await client.call("Subscriber/CreateSubscription", made)).code).toBe(0);
}
