/**
 * What caches and browsers may do with stored content: which responses a cache may keep and for which caller, when an ETag still
 * names the same bytes, and that a browser runs no script which a writer stored.
 */
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { useBrowser } from "../examples/browser.ts";
import { appended, create, createdStream, serverForTest } from "./server.ts";
import { openStage } from "./stage.ts";

const TEXT = "text/plain";
const SANDBOX = "sandbox; default-src 'none'";

describe("an ETag", () => {
  it("changes when messages at the start are trimmed by age, though none was appended", async () => {
    const app = await openStage("memory");
    const url = await createdStream(app, "s", TEXT, { "Stream-Max-Age-Seconds": "100" });
    await appended(url, TEXT, "old");
    app.pass(90_000);
    await appended(url, TEXT, "new");
    const before = await fetch(`${url}?offset=-1`);
    expect(await before.text()).toBe("oldnew");
    app.pass(20_000);
    await app.sweep();
    const headers = { "If-None-Match": before.headers.get("etag")! };
    const after = await fetch(`${url}?offset=-1`, { headers });
    expect([after.status, await after.text()]).toEqual([200, "new"]);
    expect(after.headers.get("stream-next-offset")).toBe(before.headers.get("stream-next-offset"));
    const again = await fetch(`${url}?offset=-1`, { headers: { "If-None-Match": after.headers.get("etag")! } });
    expect(again.status).toBe(304);
  });

  it("of a fork differs from that of a later fork at its path, whose offsets are the same", async () => {
    const server = await serverForTest("memory");
    const url = `${server.url}/v1/stream/fork`;
    const sources = ["one", "two"];
    const offsets = new Set<string>();
    for (const source of sources) offsets.add(await appended(await createdStream(server, source, TEXT), TEXT, source));
    expect(offsets.size).toBe(1);
    let etag: string | undefined;
    for (const source of sources) {
      expect((await create(url, { "Stream-Forked-From": source })).status).toBe(201);
      const read = await fetch(url, { headers: etag === undefined ? {} : { "If-None-Match": etag } });
      expect([read.status, await read.text()]).toEqual([200, source]);
      etag = read.headers.get("etag")!;
      await fetch(url, { method: "DELETE" });
    }
  });
});

describe("a response with stored content", () => {
  it("is kept by the reader's own cache at most, and by none if it waited or is an inbox", async () => {
    const server = await serverForTest("memory", { stream: { pageBytes: 4 } });
    const url = await createdStream(server, "s", TEXT);
    const first = await appended(url, TEXT, "one!");
    const last = await appended(url, TEXT, "two!");
    await appended(url, TEXT, "three");
    const sessionId = randomUUID();
    const body = JSON.stringify({ sessionId, streamId: "s" });
    await fetch(`${server.url}/v1/default/subscribe`, { method: "POST", body });
    const channel = `${server.url}/v1/default/channels/c`;
    const start = JSON.stringify({ phase: "START", sequence: 0, payload: "<script>" });
    expect((await fetch(`${channel}/publish`, { method: "POST", body: start })).status).toBe(202);

    // Pages of this machine may read, so the answer also depends on the page that asks.
    const caller = "Authorization, Cookie, Accept-Encoding, Origin";
    const kept = ["private, max-age=60, stale-while-revalidate=300", caller];
    const checked = ["private, no-cache", caller];
    const never = ["no-store", "Origin"];
    const events = ["no-cache, no-store, no-transform", "Origin"];
    const rows: [string, (string | null)[]][] = [
      [`${url}?offset=${first}`, kept],
      [`${url}?offset=${first}&format=envelope`, kept],
      [`${url}?offset=${last}`, checked],
      [`${url}?offset=-1`, checked],
      [url, checked],
      [`${url}?last=2`, checked],
      [`${url}?since=1h`, checked],
      [`${url}?offset=now`, never],
      [`${url}?offset=${first}&live=long-poll`, never],
      [`${url}?offset=${first}&live=sse`, events],
      [`${server.url}/v1/stream/session:${sessionId}`, never],
      [`${channel}/events`, events],
    ];
    for (const [address, caching] of rows) {
      const abort = new AbortController();
      const { status, headers } = await fetch(address, { signal: abort.signal });
      expect([status, headers.get("cache-control"), headers.get("vary")], address).toEqual([200, ...caching]);
      expect(headers.get("content-security-policy"), address).toBe(SANDBOX);
      expect(headers.get("x-content-type-options"), address).toBe("nosniff");
      abort.abort();
    }
  });
});

describe("in a browser", () => {
  const browser = useBrowser();
  const HTML = `<title>stored</title><script>document.title = "ran: " + document.cookie</script><p>text</p>`;

  it("a stored page is shown without running its script, which runs if the header is taken away", async () => {
    const server = await serverForTest("memory");
    const url = await createdStream(server, "page", "text/html");
    await appended(url, "text/html", HTML);
    const page = await browser.open("about:blank", /^Blocked script execution/);
    await page.context().addCookies([{ name: "who", value: "reader", url: server.url }]);
    await page.goto(url);
    expect(await page.title()).toBe("stored");
    expect(await page.locator("p").textContent()).toBe("text");
    await page.route("**/*", async (route) => {
      const response = await route.fetch();
      const { "content-security-policy": _, ...headers } = response.headers();
      await route.fulfill({ response, headers });
    });
    await page.goto(url);
    expect(await page.title()).toBe("ran: who=reader");
  });
});
