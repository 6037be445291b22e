/** What programs do with Google's clients, unmodified, through a real server. */
import type { PubSub } from "@google-cloud/pubsub";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually, type Fixture, openServer } from "../e2e/server.ts";
import { google, kinds, PROJECT, publish, pubsubAt, receive, subscriberOf } from "./google.ts";

const KINDS = kinds([
  ["6.3.0", "memory"],
  ["6.3.0", "disk"],
  ["5.3.1", "disk"],
]);

describe.each(KINDS)("Google's client %s (%s)", (version, engine) => {
  let fixture: Fixture;
  let pubsub: PubSub;
  beforeAll(async () => {
    fixture = await openServer(engine, { grpcPort: 0 });
    pubsub = pubsubAt(version, fixture.server.grpcPort!);
  });
  afterAll(async () => {
    await pubsub.close();
    await fixture.close();
  });

  /** A topic and a subscription of it, both of this name. */
  async function topicAndSubscription(name: string, options: object = {}) {
    const [topic] = await pubsub.createTopic(name);
    const [subscription] = await topic.createSubscription(name, options);
    return { topic, subscription };
  }

  it("published messages are pulled and acknowledged, and do not come again", async () => {
    const { topic } = await topicAndSubscription("plain");
    const first = receive(pubsub, "plain");
    const ids = await publish(pubsub, "plain", "a", "b");
    ids.push(await topic.publishMessage({ attributes: { color: "red" } }));
    await eventually(() => expect(first.texts).toEqual(["a", "b", ""]));
    expect(first.messages.map(({ id }) => id)).toEqual(ids);
    expect(first.messages[2]!.attributes).toEqual({ color: "red" });
    expect(first.messages.map(({ deliveryAttempt }) => deliveryAttempt)).toEqual([0, 0, 0]);
    expect(Math.abs(first.messages[0]!.publishTime.getTime() - Date.now())).toBeLessThan(60_000);
    await first.subscription.close();
    const second = receive(pubsub, "plain");
    await publish(pubsub, "plain", "c");
    await eventually(() => expect(second.texts).toEqual(["c"]));
    await second.subscription.close();
    expect(first.errors).toEqual([]);
  });

  it("a message comes again after a nack, and after its deadline", async () => {
    await topicAndSubscription("again");
    const received = receive(pubsub, "again", (message, { messages }) => {
      if (messages.length === 1) message.nack();
      else message.ack();
    });
    await publish(pubsub, "again", "a");
    await eventually(() => expect(received.texts).toEqual(["a", "a"]));
    await received.subscription.close();

    const client = await subscriberOf(pubsub);
    const subscription = `projects/${PROJECT}/subscriptions/again`;
    await publish(pubsub, "again", "b");
    const pull = async () => (await client.pull({ subscription, maxMessages: 10 }))[0].receivedMessages!;
    const [leased] = await pull();
    expect(String(leased!.message!.data)).toBe("b");
    await client.modifyAckDeadline({ subscription, ackIds: [leased!.ackId!], ackDeadlineSeconds: 1 });
    const [second] = await pull();
    expect(second!.message!.messageId).toBe(leased!.message!.messageId);
    await client.acknowledge({ subscription, ackIds: [second!.ackId!] });
    const [none] = await client.pull({ subscription, maxMessages: 10, returnImmediately: true });
    expect(none.receivedMessages).toEqual([]);
  });

  it("messages of a key come in their order, and a redelivered one brings the later ones again", async () => {
    await topicAndSubscription("ordered", { enableMessageOrdering: true });
    const topic = pubsub.topic("ordered", { messageOrdering: true });
    const numbers = Array.from({ length: 100 }, (_, i) => i);
    const keys = ["x", "y"];
    const back = new Set<string>();
    const byKey: Record<string, string[]> = { x: [], y: [] };
    const received = receive(pubsub, "ordered", (message) => {
      const text = message.data.toString();
      const seen = byKey[message.orderingKey!]!;
      seen.push(text);
      if (text === "50" && seen.includes("50", seen.indexOf("50") + 1)) back.add(message.orderingKey!);
      if (Number(text) < 50 || back.has(message.orderingKey!)) message.ack();
      // The later ones stay unanswered until this one comes again.
      else if (text === "50") message.nack();
    });
    const all = numbers.flatMap((i) => keys.map((orderingKey) => ({ orderingKey, data: Buffer.from(`${i}`) })));
    await Promise.all(all.map((message) => topic.publishMessage(message)));
    const wanted = numbers.map(String);
    await eventually(() => {
      for (const key of keys) {
        const again = byKey[key]!.indexOf("50", byKey[key]!.indexOf("50") + 1);
        expect(again).toBeGreaterThan(50);
        expect([...wanted.slice(0, 50), ...byKey[key]!.slice(again)]).toEqual(wanted);
      }
    });
    await received.subscription.close();
  });

  it("on an exactly-once subscription an acknowledgement is confirmed, and an old ack id is refused", async () => {
    await topicAndSubscription("once", { enableExactlyOnceDelivery: true });
    const { AckResponses } = google(version);
    const outcomes: string[] = [];
    const received = receive(pubsub, "once", (message) => {
      message.ackWithResponse().then((done) => outcomes.push(done));
    });
    await publish(pubsub, "once", "a");
    await eventually(() => expect(outcomes).toEqual([AckResponses.Success]));
    expect(received.subscription.isOpen).toBe(true);
    await received.subscription.close();

    const client = await subscriberOf(pubsub);
    const subscription = `projects/${PROJECT}/subscriptions/once`;
    await publish(pubsub, "once", "b", "c");
    const pulled: { ackId: string; text: string }[] = [];
    while (pulled.length < 2) {
      const [{ receivedMessages }] = await client.pull({ subscription, maxMessages: 10 });
      pulled.push(...receivedMessages!.map(({ ackId, message }) => ({ ackId: ackId!, text: String(message!.data) })));
    }
    const [old, good] = pulled.map(({ ackId }) => ackId) as [string, string];
    await client.modifyAckDeadline({ subscription, ackIds: [old], ackDeadlineSeconds: 0 });
    const fault = await client.acknowledge({ subscription, ackIds: [old, good] }).catch((thrown) => thrown);
    expect(fault).toMatchObject({
      code: 10,
      reason: "EXACTLY_ONCE_ACKID_FAILURE",
      errorInfoMetadata: { [old]: "PERMANENT_FAILURE_INVALID_ACK_ID" },
    });
    // Clients repeat what was not named, and it must succeed.
    await client.acknowledge({ subscription, ackIds: [good] });
    const [{ receivedMessages }] = await client.pull({ subscription, maxMessages: 10 });
    expect(receivedMessages!.map(({ message }) => String(message!.data))).toEqual([pulled[0]!.text]);
  });

  it("after its last attempt a message goes to the dead-letter topic", async () => {
    await topicAndSubscription("letters");
    const deadLetterTopic = pubsub.topic("letters").name;
    await topicAndSubscription("failing", { deadLetterPolicy: { deadLetterTopic, maxDeliveryAttempts: 5 } });
    const letters = receive(pubsub, "letters");
    const failing = receive(pubsub, "failing", (message) => message.nack());
    await publish(pubsub, "failing", "a");
    await eventually(() => expect(letters.texts).toEqual(["a"]));
    expect(failing.messages.map(({ deliveryAttempt }) => deliveryAttempt)).toEqual([1, 2, 3, 4, 5]);
    expect(letters.messages[0]!.attributes).toMatchObject({ CloudPubSubDeadLetterSourceSubscription: "failing" });
    await Promise.all([letters.subscription.close(), failing.subscription.close()]);
  });

  it("a seek to a snapshot or a time delivers acknowledged messages again", async () => {
    const { subscription } = await topicAndSubscription("seeking", { retainAckedMessages: true });
    const before = new Date();
    const [snapshot] = await subscription.createSnapshot("seeking");
    const received = receive(pubsub, "seeking");
    await publish(pubsub, "seeking", "a");
    await eventually(() => expect(received.texts).toEqual(["a"]));
    await snapshot.seek();
    await eventually(() => expect(received.texts).toEqual(["a", "a"]));
    await subscription.seek(before);
    await eventually(() => expect(received.texts).toEqual(["a", "a", "a"]));
    expect((await pubsub.getSnapshots())[0].map(({ name }) => name)).toEqual([snapshot.name]);
    await snapshot.delete();
    await expect(snapshot.seek()).rejects.toMatchObject({ code: 5 });
    await received.subscription.close();
  });

  it("a filter decides which messages a subscription gets", async () => {
    const { topic } = await topicAndSubscription("filtered", { filter: 'attributes.color = "red"' });
    const received = receive(pubsub, "filtered");
    for (const color of ["blue", "red"])
      await topic.publishMessage({ data: Buffer.from(color), attributes: { color } });
    await eventually(() => expect(received.texts).toEqual(["red"]));
    await received.subscription.close();
    await expect(topic.createSubscription("bad-filter", { filter: "nonsense" })).rejects.toMatchObject({ code: 3 });
  });

  it("topics and subscriptions are listed, changed, detached and deleted", async () => {
    const { topic, subscription } = await topicAndSubscription("managed", { labels: { team: "a" } });
    expect((await topic.getSubscriptions())[0].map(({ name }) => name)).toEqual([subscription.name]);
    expect((await pubsub.getTopics())[0].map(({ name }) => name)).toContain(topic.name);
    expect((await pubsub.getSubscriptions())[0].map(({ name }) => name)).toContain(subscription.name);
    await topic.setMetadata({ labels: { team: "b" } });
    expect((await topic.getMetadata())[0]).toMatchObject({ name: topic.name, labels: { team: "b" } });
    await subscription.setMetadata({ ackDeadlineSeconds: 20, retryPolicy: { minimumBackoff: { seconds: 11 } } });
    const [changed] = await subscription.getMetadata();
    expect(changed).toMatchObject({
      ackDeadlineSeconds: 20,
      labels: { team: "a" },
      pushConfig: { pushEndpoint: "" },
      retryPolicy: { minimumBackoff: { seconds: "11" }, maximumBackoff: { seconds: "600" } },
      detached: false,
    });
    await subscription.modifyPushConfig({ pushEndpoint: "https://example.com/push" });
    expect((await subscription.getMetadata())[0].pushConfig).toMatchObject({
      pushEndpoint: "https://example.com/push",
    });
    expect(await subscription.exists()).toEqual([true]);
    await pubsub.detachSubscription("managed");
    expect(await subscription.detached()).toEqual([true]);
    await topic.createSubscription("orphan");
    await topic.delete();
    expect((await pubsub.subscription("orphan").getMetadata())[0].topic).toBe("_deleted-topic_");
    await subscription.delete();
    expect(await subscription.exists()).toEqual([false]);
  });

  it("a stream ends for good when its subscription is deleted", async () => {
    const { subscription } = await topicAndSubscription("ending");
    const received = receive(pubsub, "ending", undefined, { streamingOptions: { maxStreams: 2 } });
    await publish(pubsub, "ending", "a");
    await eventually(() => expect(received.texts).toEqual(["a"]));
    await subscription.delete();
    await eventually(() =>
      expect(received.errors.map(({ message }) => message)).toEqual([
        expect.stringContaining("Resource not found (resource=ending)"),
      ]),
    );
  });

  it("a request that cannot be served says why, with Google's code and words", async () => {
    await topicAndSubscription("there");
    const missing = { code: 5, details: "Resource not found (resource=missing)." };
    const exists = { code: 6, details: "Resource already exists in the project (resource=there)." };
    await expect(pubsub.createTopic("there")).rejects.toMatchObject(exists);
    await expect(pubsub.topic("there").createSubscription("there")).rejects.toMatchObject(exists);
    await expect(pubsub.topic("missing").getMetadata()).rejects.toMatchObject(missing);
    await expect(pubsub.topic("missing").createSubscription("s")).rejects.toMatchObject(missing);
    await expect(publish(pubsub, "missing", "a")).rejects.toMatchObject(missing);
    await expect(pubsub.subscription("missing").getMetadata()).rejects.toMatchObject(missing);
    await expect(pubsub.snapshot("missing").delete()).rejects.toMatchObject(missing);
    await expect(pubsub.createTopic("a+b")).rejects.toMatchObject({ code: 3 });
    const options = { ackDeadlineSeconds: 9 };
    await expect(pubsub.topic("there").createSubscription("s", options)).rejects.toMatchObject({ code: 3 });
    const immutable = pubsub.subscription("there").setMetadata({ filter: 'attributes:"a"' });
    await expect(immutable).rejects.toMatchObject({ code: 3 });
  });

  it("a message of 7 MB is published and pulled", async () => {
    const { topic } = await topicAndSubscription("large");
    const received = receive(pubsub, "large");
    await topic.publishMessage({ data: Buffer.alloc(7_000_000, "x") });
    await eventually(() => expect(received.messages.map(({ data }) => data.length)).toEqual([7_000_000]));
    await received.subscription.close();
  });

  it("schemas have revisions, and a topic takes only messages that follow its schema", async () => {
    const { SchemaTypes, Encodings } = google(version);
    const fields = [{ name: "color", type: "string" }];
    const avro = JSON.stringify({ type: "record", name: "Paint", fields });
    const schema = await pubsub.createSchema("paint", SchemaTypes.Avro, avro);
    await expect(pubsub.createSchema("paint", SchemaTypes.Avro, avro)).rejects.toMatchObject({ code: 6 });
    await expect(pubsub.createSchema("bad", SchemaTypes.Avro, "{")).rejects.toMatchObject({ code: 3 });
    expect(await schema.get()).toMatchObject({ name: await schema.getName(), type: "AVRO", definition: avro });
    const client = await pubsub.getSchemaClient();
    const [listed] = await client.listSchemas({ parent: `projects/${PROJECT}` });
    expect(listed).toMatchObject([{ name: await schema.getName(), definition: "" }]);

    const [committed] = await client.commitSchema({
      name: await schema.getName(),
      schema: {
        type: SchemaTypes.Avro,
        definition: JSON.stringify({
          type: "record",
          name: "Paint",
          fields: [...fields, { name: "liters", type: "int" }],
        }),
      },
    });
    const [revisions] = await client.listSchemaRevisions({ name: await schema.getName() });
    expect(revisions.map(({ revisionId }) => revisionId)[0]).toBe(committed.revisionId);
    await client.rollbackSchema({ name: await schema.getName(), revisionId: revisions[1]!.revisionId! });
    expect((await schema.get()).definition).toBe(avro);
    await client.deleteSchemaRevision({ name: `${await schema.getName()}@${committed.revisionId}` });
    expect((await client.listSchemaRevisions({ name: await schema.getName() }))[0]).toHaveLength(2);

    const schemaSettings = { schema: await schema.getName(), encoding: Encodings.Json };
    const [topic] = await pubsub.createTopic({ name: "painted", schemaSettings });
    expect((await topic.getMetadata())[0].schemaSettings).toMatchObject(schemaSettings);
    await topic.publishMessage({ json: { color: "red" } });
    await expect(topic.publishMessage({ json: { colour: "red" } })).rejects.toMatchObject({ code: 3 });
    await schema.validateMessage(Buffer.from('{"color": "red"}').toString("base64"), Encodings.Json);
    const proto = {
      type: SchemaTypes.ProtocolBuffer,
      definition: 'syntax = "proto3"; message P { string color = 1; }',
    };
    await pubsub.validateSchema(proto);
    await expect(pubsub.validateSchema({ ...proto, definition: "message {" })).rejects.toMatchObject({ code: 3 });
    await schema.delete();
    await expect(schema.get()).rejects.toMatchObject({ code: 5 });
  });

  it("a policy is kept with its resource, and permissions are those that the caller has", async () => {
    const { topic, subscription } = await topicAndSubscription("governed");
    for (const { iam } of [topic, subscription]) {
      const bindings = [{ role: "roles/pubsub.viewer", members: ["user:a@example.com"] }];
      expect((await iam.getPolicy())[0].bindings).toEqual([]);
      await iam.setPolicy({ bindings });
      const [policy] = await iam.getPolicy();
      expect(policy.bindings).toMatchObject(bindings);
      await iam.setPolicy({ bindings: [], etag: policy.etag! });
      await expect(iam.setPolicy({ bindings, etag: policy.etag! })).rejects.toMatchObject({ code: 10 });
      expect((await iam.testPermissions(["pubsub.topics.publish"]))[0]).toEqual({ "pubsub.topics.publish": true });
    }
    expect((await topic.getMetadata())[0].name).toBe(topic.name);
  });
});
