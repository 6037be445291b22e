/**
 * A Chromium as a person has it: one window with tabs, of which one is visible. The tabs can lose their network, be frozen as on a
 * sleeping laptop, and be duplicated. The tests of the live pages use it.
 *
 * Invariants: the browser keeps its own rules for hidden tabs, which `chromium.launch` of Playwright turns off. Any error or
 * complaint of a page fails its test, except for requests that fail because the test has cut them off.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import { type BrowserContext, type CDPSession, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { eventually } from "../support/eventually.ts";
import { BROWSER_MS, installedChromium } from "./browser.ts";

export const LONG_MS = 25_000;

/** A new Chromium now and then accepts the connection and never answers; another one then does. */
const START_MS = 25_000;
const STARTS = 3;
const ENDPOINT = /DevTools listening on (ws:\S+)/;

export interface Tabs {
  open(url: string): Promise<Tab>;
}

/** Call it in the body of a describe. */
export function useTabs(): Tabs {
  let child: ChildProcess;
  let context: BrowserContext;
  const { dir } = temporaryDir();
  beforeAll(async () => {
    const { path, args } = installedChromium();
    const ownArgs = ["--headless", "--remote-debugging-port=0", `--user-data-dir=${dir}`, "--no-first-run"];
    for (let attempt = 1; ; attempt++) {
      // In a process group of its own, which ends as one.
      child = spawn(path, [...args, ...ownArgs], { stdio: ["ignore", "ignore", "pipe"], detached: true });
      const connecting = chromium.connectOverCDP(await endpointOf(child), { noDefaults: true, timeout: START_MS });
      const browser = await connecting.catch(async (fault) => {
        await end(child);
        if (attempt === STARTS) throw fault;
      });
      if (browser === undefined) continue;
      context = browser.contexts()[0]!;
      break;
    }
    context.setDefaultNavigationTimeout(BROWSER_MS);
  });
  afterAll(async () => {
    await end(child);
    // The last process of the group may still write.
    await rm(dir, { recursive: true, force: true, maxRetries: 20 });
  });
  return { open: (url) => Tab.open(context, url) };
}

async function end(child: ChildProcess): Promise<void> {
  const isOver = child.exitCode !== null || child.signalCode !== null;
  const ended = isOver ? undefined : new Promise((resolve) => child.once("exit", resolve));
  try {
    process.kill(-child.pid!, "SIGKILL");
  } catch {
    // No process of the group is left.
  }
  await ended;
}

function endpointOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    child.stderr!.on("data", (chunk) => {
      said += chunk;
      const [, endpoint] = ENDPOINT.exec(said) ?? [];
      if (endpoint !== undefined) resolve(endpoint);
    });
    child.once("exit", (code) => reject(new Error(`Chromium ended with ${code}: ${said}`)));
  });
}

export class Tab {
  private readonly complaints: string[] = [];

  private constructor(
    readonly page: Page,
    private readonly devtools: CDPSession,
  ) {
    page.on("pageerror", (error) => this.complaints.push(error.stack ?? error.message));
    page.on("console", (message) => {
      const isCutOff = /^(Failed to load resource|WebSocket connection to)/.test(message.text());
      if (["error", "warning"].includes(message.type()) && !isCutOff) this.complaints.push(message.text());
    });
    onTestFinished(async () => {
      await page.close();
      expect(this.complaints).toEqual([]);
    });
  }

  static async open(context: BrowserContext, url: string): Promise<Tab> {
    const tab = await Tab.around(await context.newPage());
    await tab.page.goto(url);
    await tab.untilStatus("live");
    return tab;
  }

  private static async around(page: Page): Promise<Tab> {
    return new Tab(page, await page.context().newCDPSession(page));
  }

  /** As a browser duplicates a tab: with a copy of its session storage. */
  async duplicate(): Promise<Tab> {
    const opened = this.page.context().waitForEvent("page");
    await this.page.evaluate("void window.open(location.href)");
    const tab = await Tab.around(await opened);
    await tab.untilStatus("live");
    return tab;
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.untilStatus("live");
  }

  /** Only the network of this tab. */
  setOffline(offline: boolean): Promise<unknown> {
    const unlimited = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
    return this.devtools.send("Network.emulateNetworkConditions", { offline, ...unlimited });
  }

  /** No script of a frozen page runs, and no timer. */
  setFrozen(isFrozen: boolean): Promise<unknown> {
    return this.devtools.send("Page.setWebLifecycleState", { state: isFrozen ? "frozen" : "active" });
  }

  /** Makes this the visible tab of the window, and hides the one that was. */
  show(): Promise<void> {
    return this.page.bringToFront();
  }

  async untilStatus(status: string): Promise<void> {
    await eventually(async () => expect(await this.status()).toBe(status), LONG_MS);
  }

  status(): Promise<string> {
    return this.page.evaluate("document.documentElement.dataset.status");
  }

  /** The whole id, which the page shortens. */
  session(): Promise<string> {
    const key = "Object.keys(sessionStorage).find((name) => name.startsWith('sluice:'))";
    return this.page.evaluate(`JSON.parse(sessionStorage.getItem(${key})).id`);
  }

  textOf(id: string): Promise<string> {
    return this.page.evaluate(`document.getElementById("${id}").textContent`);
  }

  valueOf(id: string): Promise<string> {
    return this.page.evaluate(`document.getElementById("${id}").value`);
  }

  /** Works in a hidden tab too, where a mouse cannot click. */
  click(id: string): Promise<void> {
    return this.page.evaluate(`document.getElementById("${id}").click()`);
  }

  /** Types letter by letter at a place, as a keyboard does. A page may open a field later than its session. */
  async type(id: string, text: string, at = 0): Promise<void> {
    const isClosed = `document.getElementById("${id}").disabled`;
    await eventually(async () => expect(await this.page.evaluate(isClosed)).toBe(false), LONG_MS);
    await this.page.evaluate(`
      const field = document.getElementById("${id}");
      field.focus();
      field.setSelectionRange(${at}, ${at});
      for (const letter of ${JSON.stringify(text)}) document.execCommand("insertText", false, letter);
    `);
  }
}
