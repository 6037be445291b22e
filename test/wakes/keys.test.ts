import { expect, test } from "vitest";
import { nodeEd25519 } from "../../packages/server/src/doors/webhook/node-ed25519.ts";
import { TestApp } from "./app.ts";

const DAY_MS = 24 * 3_600_000;

async function published(app: TestApp): Promise<string[]> {
  const { body } = await app.call("GET", "/v1/stream/__ds/jwks.json");
  for (const key of body.keys) {
    expect(key).toEqual({
      kty: "OKP",
      crv: "Ed25519",
      alg: "EdDSA",
      use: "sig",
      kid: expect.stringMatching(/^ds_[\w-]{22}$/),
      x: expect.stringMatching(/^[\w-]{43}$/),
    });
  }
  return body.keys.map(({ kid }: { kid: string }) => kid);
}

test("the first webhook subscription makes the project's key; asking for keys makes none", async () => {
  const app = await TestApp.open();
  expect(await published(app)).toEqual([]);
  await app.pullWake("pull");
  expect(await published(app)).toEqual([]);
  const { kid } = (await app.webhook("s")).body.webhook.signing;
  expect(await published(app)).toEqual([kid]);
  await app.webhook("t");
  expect(await published(app)).toEqual([kid]);
});

test("an old key is replaced within the hour, and stays published for a day", async () => {
  const app = await TestApp.open();
  const { kid } = (await app.webhook("s")).body.webhook.signing;
  await app.advance(30 * DAY_MS - 2 * 3_600_000);
  expect(await published(app)).toEqual([kid]);
  await app.advance(3 * 3_600_000);
  await app.until(async () => (await published(app)).length === 2);
  const [old, fresh] = await published(app);
  expect(old).toBe(kid);
  expect((await app.shown("s")).webhook.signing.kid).toBe(fresh);
  await app.append("events/a");
  await app.notified(1);
  expect(app.receiver.received[0]!.request.headers["Webhook-Signature"]).toContain(`kid=${fresh},`);
  await app.advance(DAY_MS - 3_600_000);
  expect(await published(app)).toEqual([kid, fresh]);
  await app.advance(3_600_000);
  expect(await published(app)).toEqual([fresh]);
});

test("a key can be replaced at any time, and its private half is forgotten", async () => {
  const app = await TestApp.open();
  const { kid } = (await app.webhook("s")).body.webhook.signing;
  const fresh = await app.app.keys.rotate("default");
  expect(fresh).not.toBe(kid);
  expect(await published(app)).toEqual([kid, fresh]);
  const entity = { project: "default", kind: "keys", id: "webhook", key: "default/keys/webhook" };
  const { rows } = await app.engine.load(entity, [{ table: "signing", key: "" }]);
  const keys = JSON.parse(new TextDecoder().decode(rows[0])) as { kid: string; seed?: string }[];
  expect(keys.map((key) => [key.kid, key.seed !== undefined])).toEqual([
    [kid, false],
    [fresh, true],
  ]);
});

test("keys survive a restart", async () => {
  const app = await TestApp.open();
  const { kid } = (await app.webhook("s")).body.webhook.signing;
  await app.restart();
  expect((await app.shown("s")).webhook.signing.kid).toBe(kid);
  expect(await published(app)).toEqual([kid]);
});

test("the pair follows from its seed as RFC 8032 says", () => {
  const bytes = (text: string) => new Uint8Array(Buffer.from(text, "hex"));
  const seed = bytes("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
  const publicKey = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
  const signature =
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
  expect(Buffer.from(nodeEd25519.publicKey(seed)).toString("hex")).toBe(publicKey);
  expect(Buffer.from(nodeEd25519.sign(seed, bytes("af82"))).toString("hex")).toBe(signature);
});
