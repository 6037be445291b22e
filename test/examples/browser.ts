/**
 * A headless Chromium for the tests of the examples and of stored content, and readers of its pages.
 *
 * Invariants: any error or console complaint of a page fails its test. Excepted are unreachable or missing channels and
 * sessions, which tests cause on purpose, and complaints that the test expects.
 */
import { execFileSync } from "node:child_process";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { eventually } from "../support/eventually.ts";

/** How long Chromium may take to start and to load a page on a busy machine. Below the limit of a hook and of a test. */
export const BROWSER_MS = 80_000;

/** Parts of Chromium that no test sees. Each window would start them as processes that take longer than the page itself. */
const UNSEEN = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess"];

/** The path of Chromium, and its arguments in every test. */
export function installedChromium(): { readonly path: string; readonly args: readonly string[] } {
  const path = execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
  // Chromium has no sandbox for root.
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return { path, args: [`--disable-features=${UNSEEN.join(",")}`, ...sandbox] };
}

/** Call it in the body of a describe. */
export function useBrowser(): { open(url: string, expected?: RegExp): Promise<Page> } {
  let browser: Browser;
  beforeAll(async () => {
    const { path, args } = installedChromium();
    browser = await chromium.launch({ executablePath: path, args: [...args], timeout: BROWSER_MS });
  });
  afterAll(() => browser?.close());
  const open = async (url: string, expected?: RegExp) => {
    // A context of its own shares nothing with another viewer, like another person's browser.
    const context = await browser.newContext();
    context.setDefaultNavigationTimeout(BROWSER_MS);
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(error.stack ?? error.message));
    page.on("console", (message) => {
      const isSluice = /\/channels\/|\/stream\/session(:|%3A)|\/subscribe$/.test(message.location().url);
      const isExpected = expected?.test(message.text()) || (isSluice && message.text().startsWith("Failed to load"));
      if (["error", "warning"].includes(message.type()) && !isExpected) complaints.push(message.text());
    });
    onTestFinished(async () => {
      await context.close();
      expect(complaints).toEqual([]);
    });
    await page.goto(url);
    return page;
  };
  return { open };
}

/** The whole text, hidden marks included. */
export function textOf(page: Page): Promise<string | null> {
  return page.locator("#answer").evaluate((element) => element.textContent);
}

export async function untilText(page: Page, text: string): Promise<void> {
  await eventually(async () => expect(await textOf(page)).toBe(text), 20_000);
}

export async function untilState(page: Page, state: string): Promise<void> {
  await page.waitForSelector(`html[data-state="${state}"]`, { timeout: 20_000 });
}
