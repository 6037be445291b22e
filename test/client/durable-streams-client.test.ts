import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client";
import { expect, test } from "vitest";
import { describeOnEngines, nobodyIsLeft, serverForTest } from "../e2e/server.ts";
import { numbersTo, openClient, valuesOf } from "./open-client.ts";

/** The public client of the protocol, unchanged, against this server. */
describeOnEngines("the public client @durable-streams/client", (engine) => {
  test("creates, appends, reads, learns of the end, and deletes", async () => {
    const fixture = await serverForTest(engine, { tail: { heartbeatMs: 5 } });
    const url = `${fixture.url}/v1/stream/public/basic-${engine}`;
    const handle = await DurableStream.create({ url, contentType: "application/json", ttlSeconds: 3_600 });
    await handle.append(JSON.stringify({ n: 0 }), { seq: "0001" });
    await handle.append(JSON.stringify({ n: 1 }), { seq: "0002" });
    await expect(handle.append(JSON.stringify({ n: 9 }), { seq: "0001" })).rejects.toThrow();
    const head = await handle.head();
    if (!head.exists) throw new Error("it was created");
    expect(head.contentType).toBe("application/json");
    expect(await (await stream({ url, live: false })).json()).toEqual([{ n: 0 }, { n: 1 }]);
    await handle.append(JSON.stringify({ n: 2 }));
    const rest = await stream({ url, offset: head.offset, live: false });
    expect(await rest.json()).toEqual([{ n: 2 }]);
    await handle.close();
    expect(await handle.head()).toMatchObject({ streamClosed: true });
    await handle.delete();
    expect(await DurableStream.head({ url })).toEqual({ exists: false });
  });

  test("writes with its producer, and this client's reader and its own readers see each message once and in order", async () => {
    const fixture = await serverForTest(engine);
    const path = `public/producer-${engine}`;
    const url = `${fixture.url}/v1/stream/${path}`;
    const handle = await DurableStream.create({ url, contentType: "application/json" });
    const ours = valuesOf(openClient(fixture.url).stream(path), { live: true });
    const theirs = (["sse", "long-poll"] as const).map(async (live) => {
      const response = await stream<number>({ url, live });
      const seen: number[] = [];
      for await (const value of response.jsonStream()) seen.push(value);
      return seen;
    });
    const failures: Error[] = [];
    const producer = new IdempotentProducer(handle, "public-producer", { onError: (error) => failures.push(error) });
    for (const n of numbersTo(2_000)) producer.append(JSON.stringify(n));
    await producer.flush();
    await handle.close();
    expect(failures).toEqual([]);
    expect(await ours).toEqual(numbersTo(2_000));
    for (const seen of theirs) expect(await seen).toEqual(numbersTo(2_000));
    await nobodyIsLeft(fixture);
  });

  test("reads what this client writes: JSON, text and bytes, live", async () => {
    const fixture = await serverForTest(engine);
    const sluice = openClient(fixture.url);
    const json = sluice.stream<number>(`public/json-${engine}`);
    await json.create();
    for (const n of numbersTo(100)) void json.append(n);
    await json.close();
    const address = (path: string) => `${fixture.url}/v1/stream/${path}`;
    expect(await (await stream<number>({ url: address(json.path), live: "sse" })).json()).toEqual(numbersTo(100));

    const text = sluice.stream<string>(`public/text-${engine}`, { contentType: "text/plain" });
    await text.create();
    for (const word of ["grüß ", "dich\n", "\u{1f600}"]) void text.append(word);
    await text.close();
    expect(await (await stream({ url: address(text.path), live: "sse" })).text()).toBe("grüß dich\n\u{1f600}");

    const bytes = sluice.stream<Uint8Array>(`public/bytes-${engine}`, { contentType: "application/octet-stream" });
    await bytes.create();
    await bytes.append(new Uint8Array([0, 255, 13, 10]));
    await bytes.close();
    expect(await (await stream({ url: address(bytes.path), live: "long-poll" })).body()).toEqual(
      new Uint8Array([0, 255, 13, 10]),
    );
  });
});
