/** The gRPC door itself: restarts, tokens, ports. */
import { readFileSync } from "node:fs";
import { createServer as createListener } from "node:net";
import { fileURLToPath } from "node:url";
import { createServer, mint } from "@sluice/server";
import { expect, it, onTestFinished } from "vitest";
import { eventually, serverForTest } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { kinds, PROJECT, publish, pubsubAt, receive, securePubsubAt, subscriberOf, type Version } from "./google.ts";

const NEWEST: Version = "6.3.0";

function clientAt(port: number, version: Version = NEWEST) {
  const pubsub = pubsubAt(version, port);
  onTestFinished(() => pubsub.close());
  return pubsub;
}

const RESTARTED = kinds(
  [
    ["6.3.0", "disk"],
    ["5.3.1", "disk"],
  ],
  ["disk", "redis"],
);

it.each(RESTARTED)(
  "a subscriber (%s, %s) goes on after a restart, with every message that it has not acknowledged",
  async (version, engine) => {
    const { dir, remove } = temporaryDir();
    onTestFinished(remove);
    const place = engine === "redis" ? { redis: sharedRedis() } : { data: dir };
    const options = { port: 0, ...place, log: false as const, drainMs: 2_000 };
    const before = await createServer({ ...options, grpcPort: 0 });
    const grpcPort = before.grpcPort!;
    const pubsub = clientAt(grpcPort, version);
    const [topic] = await pubsub.createTopic("t", {});
    await topic.setMetadata({ labels: { team: "a" } });
    await topic.createSubscription("s", { ackDeadlineSeconds: 30 });
    const received = receive(pubsub, "s", (message) => {
      if (message.data.toString() === "acked") message.ack();
    });
    await publish(pubsub, "t", "acked");
    await eventually(() => expect(received.texts).toEqual(["acked"]));
    // The client sends acknowledgements later, in batches.
    await eventually(async () => expect(await before.metrics()).toContain("sluice_pull_outstanding 0"));
    await publish(pubsub, "t", "kept");
    await eventually(() => expect(received.texts).toEqual(["acked", "kept"]));
    await before.close();
    const after = await createServer({ ...options, grpcPort });
    onTestFinished(() => after.close());
    await eventually(() => expect(received.texts).toEqual(["acked", "kept", "kept"]), 30_000);
    expect((await pubsub.topic("t").getMetadata())[0].labels).toEqual({ team: "a" });
    expect(received.errors).toEqual([]);
    await received.subscription.close();
  },
);

it.each(kinds([[NEWEST, "memory"]]))(
  "a call needs a token of its project and scope (%s, %s)",
  async (version, engine) => {
    const secret = "s".repeat(32);
    const { server } = await serverForTest(engine, { grpcPort: 0, projects: { [PROJECT]: { secrets: [secret] } } });
    const pubsub = clientAt(server.grpcPort!, version);
    const withToken = async (scope: string, streams?: string[]) => {
      const token = await mint(secret, { project: PROJECT, scope, ttlSeconds: 60, streams }, Date.now());
      return { otherArgs: { headers: { authorization: `Bearer ${token}` } } };
    };
    await expect(pubsub.createTopic("t")).rejects.toMatchObject({ code: 16 });
    const writer = await withToken("write");
    await pubsub.createTopic("t", writer);
    const reader = await withToken("read");
    await expect(pubsub.createTopic("u", reader)).rejects.toMatchObject({ code: 7 });
    expect((await pubsub.topic("t").getMetadata(reader))[0].name).toBe(`projects/${PROJECT}/topics/t`);
    const confined = await withToken("read write", ["others/#"]);
    await expect(pubsub.topic("t").getMetadata(confined)).rejects.toMatchObject({ code: 7 });
    const client = await subscriberOf(pubsub);
    const stream = client.streamingPull();
    const failed = new Promise((resolve) => stream.once("error", resolve));
    stream.write({ subscription: `projects/${PROJECT}/subscriptions/s`, streamAckDeadlineSeconds: 10 });
    expect(await failed).toMatchObject({ code: 16 });
  },
);

const ENGINES = new Set(kinds([[NEWEST, "memory"]]).map(([, engine]) => engine));

it.each([...ENGINES])("Google's client publishes and pulls over TLS (%s)", async (engine) => {
  const [cert, key] = ["first-cert", "first-key"].map((name) =>
    fileURLToPath(new URL(`../support/tls/${name}.pem`, import.meta.url)),
  );
  const { server } = await serverForTest(engine, { grpcPort: 0, tls: { cert, key } });
  const pubsub = securePubsubAt(server.grpcPort!, readFileSync(cert!));
  onTestFinished(() => pubsub.close());
  const [topic] = await pubsub.createTopic("t");
  await topic.createSubscription("s");
  const received = receive(pubsub, "s");
  await publish(pubsub, "t", "a");
  await eventually(() => expect(received.texts).toEqual(["a"]));
  await received.subscription.close();
});

it("a port that was asked for must be free, and without one the server starts without gRPC if 8085 is taken", async () => {
  const blocker = createListener();
  await new Promise<void>((resolve) => {
    blocker.once("error", () => resolve());
    blocker.listen(8085, "127.0.0.1", () => resolve());
  });
  onTestFinished(() => void blocker.close());
  const lines: string[] = [];
  const warn = (_details: object, what: string) => void lines.push(what);
  const logger = { fatal: warn, error: warn, warn, info: () => {}, debug: () => {}, trace: () => {} };
  const server = await createServer({ port: 0, memory: true, grpcPort: "auto", log: { logger: logger as never } });
  onTestFinished(() => server.close());
  expect(server.grpcPort).toBeUndefined();
  expect(lines.join()).toContain("gRPC is off: port 8085 of 127.0.0.1 is in use");
  const asked = createServer({ port: 0, memory: true, grpcPort: 8085, log: false });
  await expect(asked).rejects.toThrow("port 8085 of 127.0.0.1 is in use");
});
