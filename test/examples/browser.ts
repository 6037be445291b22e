/**
 * A headless Chromium for the tests of the examples, and what they look at in a page. Whatever a page throws or complains
 * about fails its test, except for channels and sessions that cannot be reached or are not there, which tests bring about on
 * purpose.
 */
import { execFileSync } from "node:child_process";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { eventually } from "../support/eventually.ts";

/** Call it in the body of a describe. */
export function useBrowser(): { open(url: string): Promise<Page> } {
  let browser: Browser;
  beforeAll(async () => {
    const executablePath = execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
    // Root has no sandbox to put it in.
    const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    browser = await chromium.launch({ executablePath, args });
  });
  afterAll(() => browser?.close());
  const open = async (url: string) => {
    // A context of its own: nothing is shared with another viewer, like another person's browser.
    const context = await browser.newContext();
    const page = await context.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(error.stack ?? error.message));
    page.on("console", (message) => {
      const isSluice = /\/channels\/|\/stream\/session(:|%3A)|\/subscribe$/.test(message.location().url);
      const isExpected = isSluice && message.text().startsWith("Failed to load");
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

/** All of it, hidden marks included. */
export function textOf(page: Page): Promise<string | null> {
  return page.locator("#answer").evaluate((element) => element.textContent);
}

export async function untilText(page: Page, text: string): Promise<void> {
  await eventually(async () => expect(await textOf(page)).toBe(text), 20_000);
}

export async function untilState(page: Page, state: string): Promise<void> {
  await page.waitForSelector(`html[data-state="${state}"]`, { timeout: 20_000 });
}
