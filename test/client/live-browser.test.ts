import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { eventually, serverForTest } from "../e2e/server.ts";
import { useBrowser } from "../examples/browser.ts";
import { openClient } from "./open-client.ts";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/** The session of a page, and what it has processed, over reloads. */
interface Shown {
  readonly id?: string;
  readonly status?: string;
  readonly seen: string;
}

/** A web server with one page, which follows a stream. */
async function servePage(sluiceUrl: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: {
      contents: `
        import { Sluice } from "@sluice/client";
        const sluice = new Sluice({ url: ${JSON.stringify(sluiceUrl)} });
        window.tab = await sluice.session();
        window.tab.subscribe("doc/9", ({ value }) => localStorage[tab.id] = (localStorage[tab.id] ?? "") + value);`,
      resolveDir: path("."),
    },
    alias: {
      "@sluice/client": path("../../packages/client/src/index.ts"),
      "@sluice/protocol": path("../../packages/protocol/src/index.ts"),
    },
    bundle: true,
    format: "esm",
    write: false,
  });
  const server = createServer(({ url }, response) => {
    const isScript = url === "/page.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(
      isScript ? outputFiles[0]!.text : '<link rel="icon" href="data:,"><script type="module" src="/page.js"></script>',
    );
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const shown = (page: Page): Promise<Shown> =>
  page.evaluate(() => {
    const { tab, localStorage } = globalThis as unknown as { tab?: Shown; localStorage: Record<string, string> };
    return { id: tab?.id, status: tab?.status, seen: localStorage[tab?.id ?? ""] ?? "" };
  }) as Promise<Shown>;

const untilLive = (page: Page) => eventually(async () => expect((await shown(page)).status).toBe("live"), 20_000);

describe("in a browser, a live session", () => {
  const browser = useBrowser();

  test("gets every message once over a reload, and a duplicated tab makes a session of its own", async () => {
    const fixture = await serverForTest("memory");
    const doc = openClient(fixture.url).stream<number>("doc/9");
    await doc.create();
    const page = await browser.open(await servePage(fixture.url));
    await untilLive(page);
    await doc.append(1);
    await eventually(async () => expect((await shown(page)).seen).toBe("1"), 20_000);
    const { id } = await shown(page);
    const reloading = page.reload();
    await doc.append(2);
    await reloading;
    await untilLive(page);
    await doc.append(3);
    await eventually(async () => expect((await shown(page)).seen).toBe("123"), 20_000);
    expect((await shown(page)).id).toBe(id);
    // A window that a page opens starts with a copy of its sessionStorage, as a duplicated tab does.
    const [copy] = await Promise.all([
      page.context().waitForEvent("page"),
      page.evaluate(() => void (globalThis as unknown as { open(url: string): void }).open("/")),
    ]);
    await untilLive(copy);
    await doc.append(4);
    await eventually(async () => expect((await shown(copy)).seen).toBe("4"), 20_000);
    await eventually(async () => expect((await shown(page)).seen).toBe("1234"), 20_000);
    expect((await shown(copy)).id).not.toBe(id);
    expect((await shown(page)).id).toBe(id);
  });
});
