import type { Stream } from "@sluice/client";
import { describe, expect, test } from "vitest";
import { within } from "../e2e/server.ts";
import { noUnhandledRejections, openClient, valuesOf } from "./open-client.ts";
import { openPlainServer } from "./plain-server.ts";

const MODES = [false, "sse", "long-poll"] as const;

async function itemsOf(stream: Stream, live: (typeof MODES)[number], from?: string) {
  const items = [];
  for await (const item of stream.read({ live, from, marks: true })) items.push(item);
  return items;
}

describe("a server of the protocol that knows no envelopes", () => {
  test.each(MODES)("is read as JSON, text and bytes (live: %s)", async (live) => {
    const { url } = await openPlainServer();
    const sluice = openClient(url);
    const json = sluice.stream<unknown>("json");
    for (const value of [{ a: 1 }, "two", [3]]) await json.append(value);
    await json.close();
    const items = await within(10_000, "the end", itemsOf(json, live));
    expect(items.slice(0, 3)).toMatchObject([{ value: { a: 1 } }, { value: "two" }, { value: [3] }]);
    expect(items.slice(3).map(({ type }) => type)).toEqual(["caught-up", "closed"]);
    expect(items[2]).toMatchObject({ offset: "00000003", publishedAt: undefined });

    const text = sluice.stream<string>("text", { contentType: "text/plain" });
    for (const word of ["grüß\n", '[{"not":"JSON"'] as const) await text.append(word);
    await text.close();
    expect((await valuesOf(text, { live })).join("")).toBe('grüß\n[{"not":"JSON"');

    const bytes = sluice.stream<Uint8Array>("bytes", { contentType: "application/octet-stream" });
    await bytes.append(new Uint8Array([0, 255]));
    await bytes.close({ message: new Uint8Array([13]) });
    expect(Buffer.concat((await valuesOf(bytes, { live })) as Uint8Array[])).toEqual(Buffer.from([0, 255, 13]));
  });

  test.each(["sse", "long-poll"] as const)(
    "is followed, and resumed after any message without a loss (%s)",
    async (live) => {
      const { url } = await openPlainServer();
      const stream = openClient(url).stream<number>("live");
      await Promise.all([1, 2, 3].map((n) => stream.append(n)));
      const reading = valuesOf(stream, { live });
      for (const n of [4, 5]) await stream.append(n);
      await stream.close();
      expect(await within(10_000, "the end", reading)).toEqual([1, 2, 3, 4, 5]);
      for await (const item of stream.read({ live })) {
        if (item.type !== "message") throw new Error("a gap");
        const rest = await valuesOf(stream, { live, from: item.offset });
        // A message inside a batch names the position before the batch, so some may come again.
        expect(rest).toEqual([1, 2, 3, 4, 5].slice(5 - rest.length));
        expect(rest.length).toBeGreaterThanOrEqual(5 - item.value);
      }
    },
  );

  test("fences an earlier producer's appends and its close, and dedupes what a restarted program appends again", async () => {
    noUnhandledRejections();
    const { url } = await openPlainServer();
    const [older, newer] = [openClient(url), openClient(url)].map((sluice) => sluice.stream("f", { producer: "p" }));
    await older!.append(1);
    await newer!.append(2);
    await expect(older!.close()).rejects.toMatchObject({ code: "producer-fenced", status: 403 });
    await newer!.close();
    await expect(newer!.append(3)).rejects.toMatchObject({ code: "stream-closed", status: 409 });

    for (const values of [
      ["a", "b"],
      ["a", "b", "c"],
    ]) {
      const run = openClient(url).stream("own", { producer: { id: "importer", epoch: 1 } });
      for (const value of values) await run.append(value);
    }
    expect(await valuesOf(openClient(url).stream("own"))).toEqual(["a", "b", "c"]);
  });
});
