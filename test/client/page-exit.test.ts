import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { eventually, serverForTest } from "../e2e/server.ts";
import { numbersTo, openClient, valuesOf } from "./open-client.ts";

/** The part of a page that the client uses. */
class Page extends EventTarget {
  listeners = 0;
  override addEventListener(...args: Parameters<EventTarget["addEventListener"]>): void {
    this.listeners++;
    super.addEventListener(...args);
  }
  override removeEventListener(...args: Parameters<EventTarget["removeEventListener"]>): void {
    this.listeners--;
    super.removeEventListener(...args);
  }
  hide(): void {
    this.dispatchEvent(new Event("pagehide"));
  }
}

describe("at the end of a page,", () => {
  let page: Page;
  beforeEach(() => {
    page = new Page();
    vi.stubGlobal("document", {});
    vi.stubGlobal("addEventListener", page.addEventListener.bind(page));
    vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page));
  });
  afterEach(() => vi.unstubAllGlobals());

  /** After the end, only requests leave that were marked to outlive the page. */
  function dyingFetch(): { fetch: typeof fetch; die: () => void; lastBytes: () => number } {
    let isOver = false;
    let bytes = 0;
    const dying: typeof fetch = (input, init) => {
      if (init?.keepalive) {
        bytes += (init.body as Uint8Array | string).length;
        return fetch(input, init);
      }
      if (isOver) return new Promise(() => {});
      return fetch(input, init);
    };
    return {
      fetch: dying,
      lastBytes: () => bytes,
      die: () => {
        isOver = true;
        page.hide();
      },
    };
  }

  test("unsent appends arrive, in order and once", async () => {
    const fixture = await serverForTest("memory");
    const { fetch, die } = dyingFetch();
    const stream = openClient(fixture.url, { fetch, append: { batchMessages: 10 } }).stream<number>("page/left");
    await stream.create();
    expect(page.listeners).toBe(0);
    for (const n of numbersTo(25)) void stream.append(n);
    expect(page.listeners).toBe(1);
    die();
    const after = openClient(fixture.url).stream<number>("page/left");
    await eventually(async () => expect((await valuesOf(after)).length).toBeGreaterThan(0));
    const values = await valuesOf(after);
    expect(values).toEqual(numbersTo(values.length));
  });

  test("a page that lives on repeats its last requests, and nothing is stored twice", async () => {
    const fixture = await serverForTest("memory");
    const stream = openClient(fixture.url, { append: { batchMessages: 10 } }).stream<number>("page/back");
    await stream.create();
    for (const n of numbersTo(25)) void stream.append(n);
    page.hide();
    for (const n of numbersTo(5)) void stream.append(25 + n);
    page.hide();
    await stream.flush();
    expect(await valuesOf(stream)).toEqual(numbersTo(30));
    expect(page.listeners).toBe(0);
  });

  test("a page sends no more than browsers allow", async () => {
    const fixture = await serverForTest("memory");
    const { fetch, die, lastBytes } = dyingFetch();
    const stream = openClient(fixture.url, { fetch, append: { batchMessages: 1 } }).stream<string>("page/much");
    await stream.create();
    for (const n of numbersTo(10)) void stream.append(`${n}${"ü".repeat(5_000)}`);
    die();
    expect(lastBytes()).toBeGreaterThan(40_000);
    expect(lastBytes()).toBeLessThanOrEqual(64 * 1024);
  });
});
