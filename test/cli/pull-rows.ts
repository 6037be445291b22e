/**
 * The rows of topics, subscriptions and pull in the table of commands; commands.test.ts runs them.
 *
 * Invariants: each row does what the command's help says, against a real server.
 */
import { PubSub } from "@sluice/client/pubsub";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "../e2e/server.ts";
import { type Ended, sluice, start } from "../support/sluice-process.ts";

type Ok = (args: readonly string[], stdin?: string) => Promise<Ended>;

export const pullRows = (url: () => string, ok: Ok): Readonly<Record<string, () => Promise<void>>> => {
  const withPubSub = async <T>(work: (pubsub: PubSub) => Promise<T>): Promise<T> => {
    const pubsub = new PubSub({ url: url(), WebSocket });
    try {
      return await work(pubsub);
    } finally {
      await pubsub.close();
    }
  };
  /** A topic and a subscription of this name. */
  const made = (name: string, ...texts: string[]) =>
    withPubSub(async (pubsub) => {
      const topic = await pubsub.createTopic(name);
      await topic.subscription(name, { ackDeadline: 600 }).create();
      for (const text of texts) await topic.publishMessage({ data: Buffer.from(text) });
    });
  const infoOf = async (name: string) => JSON.parse((await ok(["subscription", "info", name, "--json"])).stdout);

  return {
    async "topic ls"() {
      await made("topic-listed");
      expect((await ok(["topic", "ls"])).stdout).toMatch(/^TOPIC +CREATED\n(.*\n)*topic-listed +20/);
      const lines = (await ok(["topic", "ls", "--json"])).stdout.trim().split("\n");
      expect(lines.map((text) => JSON.parse(text).name)).toContain("topic-listed");
    },

    async "topic create"() {
      expect((await ok(["topic", "create", "topic-a", "topic-b"])).stdout).toBe("created topic-a\ncreated topic-b\n");
      expect((await ok(["topic", "create", "topic-a"])).stdout).toBe("exists topic-a\n");
    },

    async "topic publish"() {
      await made("published");
      const args = ["topic", "publish", "published", "tea", "--key", "k", "-a", "region=eu", "-a", "x=y=z"];
      expect((await ok(args)).stdout).toMatch(/^\d{16}_\d{16}\n$/);
      await ok(["topic", "publish", "published", "--lines"], "one\n\ntwo\n");
      const lines = (await ok(["pull", "published", "--limit", "3", "--json"])).stdout.trim().split("\n");
      const [first, ...rest] = lines.map((text) => JSON.parse(text));
      expect(first).toMatchObject({
        data: "tea",
        orderingKey: "k",
        attributes: { region: "eu", x: "y=z" },
        attempt: 1,
      });
      expect(rest.map(({ data }) => data)).toEqual(["one", "two"]);
      const missing = await sluice(["topic", "publish", "none", "x"], { env: { SLUICE_URL: url() } });
      expect([missing.code, missing.stderr]).toEqual([3, expect.stringContaining("stream-not-found")]);
    },

    async "topic rm"() {
      await made("topic-gone");
      expect((await ok(["topic", "rm", "topic-gone"])).stdout).toBe("deleted topic-gone\n");
      expect((await fetch(`${url()}/v1/stream/topic-gone`)).status).toBe(404);
    },

    async "subscription ls"() {
      await made("subscription-listed");
      expect((await ok(["subscription", "ls"])).stdout).toMatch(
        /^SUBSCRIPTION +TOPIC +ACK DEADLINE +STATE\n(.*\n)*subscription-listed +subscription-listed +600s +delivers\n/,
      );
      const lines = (await ok(["subscription", "ls", "--json"])).stdout.trim().split("\n");
      expect(lines.map((text) => JSON.parse(text).name)).toContain("subscription-listed");
    },

    async "subscription create"() {
      await made("source", "before");
      const own = ["subscription", "create", "all-of-it", "source"];
      const dead = ["--dead-letter", "source-dead", "--max-attempts", "7"];
      const args = [...own, "--from", "earliest", "--ordered", "--ack-deadline", "30s", ...dead];
      expect((await ok(args)).stdout).toBe("created all-of-it (topic source)\n");
      expect((await ok(own)).stdout).toBe("exists all-of-it (topic source)\n");
      expect(await infoOf("all-of-it")).toMatchObject({
        topic: "source",
        isOrdered: true,
        ackDeadlineMs: 30_000,
        deadLetter: { topic: "source-dead", maxAttempts: 7 },
      });
      expect((await ok(["pull", "all-of-it", "--limit", "1"])).stdout).toBe("before\n");
    },

    async "subscription info"() {
      await made("told", "a", "b");
      await ok(["pull", "told", "--limit", "1"]);
      expect((await ok(["subscription", "info", "told"])).stdout).toMatch(
        /^subscription +told\ntopic +told\nstate +delivers\ncreated +20.*\nlag +1\npending +0\noldest +\d+\.\ds\n/,
      );
      expect(await infoOf("told")).toMatchObject({ lag: 1, pending: 0, ackDeadlineMs: 600_000 });
      await expect(ok(["subscription", "info", "none"])).rejects.toThrow(/subscription-not-found/);
    },

    async "subscription seek"() {
      await made("sought", "a", "b");
      await ok(["pull", "sought", "--limit", "2"]);
      expect((await ok(["subscription", "seek", "sought", "earliest"])).stdout).toBe("moved sought to earliest\n");
      expect((await ok(["pull", "sought", "--limit", "2"])).stdout).toBe("a\nb\n");
    },

    async "subscription redrive"() {
      await withPubSub(async (pubsub) => {
        await pubsub.createTopic("driven");
        const deadLetter = { topic: "driven-dead", maxAttempts: 1 };
        await pubsub.queue.createSubscription("driven", { topic: "driven", deadLetter });
        await pubsub.topic("driven").publishMessage({ data: Buffer.from("poison") });
        for await (const message of pubsub.subscription("driven")) {
          message.nack();
          break;
        }
        await eventually(async () =>
          expect((await pubsub.queue.topics()).map(({ name }) => name)).toContain("driven-dead"),
        );
      });
      await eventually(async () => {
        const { stdout } = await ok(["subscription", "redrive", "driven"]);
        expect(stdout).toBe("1 message published again for driven\n");
      });
      expect((await ok(["pull", "driven", "--limit", "1"])).stdout).toBe("poison\n");
    },

    async "subscription rm"() {
      await made("subscription-gone");
      expect((await ok(["subscription", "rm", "subscription-gone"])).stdout).toBe("deleted subscription-gone\n");
      await expect(infoOf("subscription-gone")).rejects.toThrow(/subscription-not-found/);
    },

    async pull() {
      await made("pulled", "a", "b", "bad\x1bbytes");
      const looked = await ok(["pull", "pulled", "--limit", "2", "--no-ack"]);
      expect([looked.stdout, looked.stderr]).toEqual(["a\nb\n", "sluice: 2 messages printed\n"]);
      const worker = start(["pull", "pulled"], { env: { SLUICE_URL: url() } });
      await eventually(() => expect(worker.said.stdout).toBe("a\nb\nbad\ufffdbytes\n"));
      worker.child.kill("SIGINT");
      const { code, stderr } = await worker.ended;
      expect([code, stderr]).toEqual([0, "sluice: 3 messages acknowledged\n"]);
      await withPubSub((pubsub) => pubsub.topic("pulled").publishMessage({ data: Buffer.from([0xff]) }));
      const binary = JSON.parse((await ok(["pull", "pulled", "--limit", "1", "--json"])).stdout);
      expect(binary).toMatchObject({ data: "/w==", encoding: "base64", attempt: 1 });
      await expect(ok(["pull", "none"])).rejects.toThrow(/Subscription not found|subscription-not-found/);
    },
  };
};
