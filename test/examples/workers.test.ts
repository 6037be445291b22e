import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { startExample } from "../../examples/workers/server.ts";
import { CITIES } from "../../examples/workers/shop.ts";
import { eventually } from "../support/eventually.ts";
import { useBrowser } from "./browser.ts";
import { openStage } from "./stage.ts";

const LONG_MS = 30_000;

/** The workers that have the cities, by name. */
async function holdersOf(page: Page): Promise<string[]> {
  return (await page.locator("#cities li > b").allTextContents()).sort();
}

describe("in the example workers,", () => {
  const browser = useBrowser();

  test("the cities of a worker that is killed go to the other one, and the orders that waited are packed", async () => {
    const { stage } = await openStage();
    const example = await startExample(stage, { orderMs: 20, packMs: 5, workers: 2 });
    onTestFinished(() => example.close());
    const page = await browser.open(stage.web.url);
    const half = CITIES.length / 2;
    await eventually(async () => {
      expect(await holdersOf(page)).toEqual([...Array(half).fill("Ada"), ...Array(half).fill("Bo")]);
    }, LONG_MS);
    await page.getByRole("button", { name: "120 orders at once" }).click();
    await page.getByRole("button", { name: "Kill −9 Bo" }).click();
    await eventually(async () => expect(await holdersOf(page)).toEqual(CITIES.map(() => "Ada")), LONG_MS);
    await page.getByRole("button", { name: "Pause orders" }).click();
    await eventually(async () => expect(await page.locator("#lag").textContent()).toBe("0"), LONG_MS);
    expect(Number(await page.locator("#packed").textContent())).toBeGreaterThanOrEqual(120);
    expect(await page.locator("#moves").textContent()).toContain("Bo → Ada");
  });
});
