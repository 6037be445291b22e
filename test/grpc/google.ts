/**
 * Google's own clients against a server of this repository. Two major versions live side by side.
 *
 * Invariants: a client looks for no credentials and no metadata server, and is closed with the test or suite that made it.
 */
import { createRequire } from "node:module";
import type { Message, PubSub, SubscriberOptions, Subscription, v1 } from "@google-cloud/pubsub";
import type { EngineName } from "../e2e/server.ts";

export type Google = typeof import("@google-cloud/pubsub");
export type Version = "5.3.1" | "6.3.0";

export type Kind = readonly [Version, EngineName];

export const PROJECT = "p";

/** The newest belongs to the repository; the older one has a workspace of its own. */
const PLACES: Readonly<Record<Version, URL>> = {
  "6.3.0": new URL(import.meta.url),
  "5.3.1": new URL("../google-pubsub-5/package.json", import.meta.url),
};

const ENGINES: readonly EngineName[] = ["memory", "disk", "redis"];

/** These clients and engines; the deep run has both clients on every engine, or on those of `engines`. */
export function kinds(byDefault: readonly Kind[], engines = ENGINES): readonly Kind[] {
  if (process.env.SLUICE_DEEP !== "1") return byDefault;
  const versions = Object.keys(PLACES) as Version[];
  return versions.flatMap((version) => engines.map((engine): Kind => [version, engine]));
}

const clients = new Map<Version, Google>();

/** Loaded when it is first asked for, because that takes a second. */
export function google(version: Version): Google {
  process.env.METADATA_SERVER_DETECTION = "none";
  const loaded: Google = clients.get(version) ?? createRequire(PLACES[version])("@google-cloud/pubsub");
  clients.set(version, loaded);
  return loaded;
}

/** As a program that has PUBSUB_EMULATOR_HOST set. Other clients of the process are not affected. */
export function pubsubAt(version: Version, port: number): PubSub {
  const { PubSub } = google(version);
  process.env.PUBSUB_EMULATOR_HOST = `127.0.0.1:${port}`;
  try {
    return new PubSub({ projectId: PROJECT });
  } finally {
    delete process.env.PUBSUB_EMULATOR_HOST;
  }
}

const gaxCredentials = (version: Version) =>
  createRequire(createRequire(PLACES[version]).resolve("@google-cloud/pubsub"))("google-gax").grpc.credentials;

/** For generated clients that are made without a `PubSub`. */
export function insecure(version: Version) {
  return gaxCredentials(version).createInsecure();
}

/** The newest client over TLS, with a certificate that it trusts. */
export function securePubsubAt(port: number, ca: Buffer): PubSub {
  const { PubSub } = google("6.3.0");
  const sslCreds = gaxCredentials("6.3.0").createSsl(ca);
  return new PubSub({ projectId: PROJECT, apiEndpoint: `localhost:${port}`, emulatorMode: false, sslCreds });
}

/** The generated client, which has every method and no behavior of its own. */
export async function subscriberOf(pubsub: PubSub): Promise<v1.SubscriberClient> {
  return new Promise((resolve, reject) => {
    pubsub.getClient_({ client: "SubscriberClient" }, (fault, client) => {
      if (fault || client === undefined) reject(fault);
      else resolve(client as unknown as v1.SubscriberClient);
    });
  });
}

export interface Received {
  readonly messages: Message[];
  readonly texts: string[];
  readonly errors: Error[];
  readonly subscription: Subscription;
}

/** Takes messages of a subscription from now on. */
export function receive(
  pubsub: PubSub,
  name: string,
  answer: (message: Message, received: Received) => void = (message) => message.ack(),
  options: SubscriberOptions = {},
): Received {
  const subscription = pubsub.subscription(name, options);
  const received: Received = { messages: [], texts: [], errors: [], subscription };
  subscription.on("message", (message: Message) => {
    received.messages.push(message);
    received.texts.push(message.data.toString());
    answer(message, received);
  });
  subscription.on("error", (error: Error) => void received.errors.push(error));
  return received;
}

export async function publish(pubsub: PubSub, topic: string, ...texts: string[]): Promise<string[]> {
  return Promise.all(texts.map((text) => pubsub.topic(topic).publishMessage({ data: Buffer.from(text) })));
}
