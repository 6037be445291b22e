import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { DAY, PEOPLE } from "../../examples/notifications/people.ts";
import { startExample } from "../../examples/notifications/server.ts";
import { eventually } from "../support/eventually.ts";
import { useBrowser } from "./browser.ts";
import { openStage } from "./stage.ts";

const LONG_MS = 20_000;

async function openExample() {
  const { stage, wire } = await openStage();
  const example = await startExample(stage, 1);
  onTestFinished(() => example.close());
  const published: { topic: string; text: string }[] = [];
  /** Publishes this many notices, one topic after the other. */
  const publish = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const [topic] = DAY[published.length % DAY.length]!;
      const text = `number ${published.length} to ${topic} <b>&amp;`;
      published.push({ topic, text });
      await example.publish(topic, { text });
    }
  };
  /** The notices that this person should have received by now. */
  const toldTo = (person: string) => {
    const { follows } = PEOPLE.find(({ id }) => id === person)!;
    return published.filter(({ topic }) => follows.includes(topic)).map(({ text }) => text);
  };
  const untilAllTold = (page: Page, people = PEOPLE.map(({ id }) => id)) =>
    eventually(async () => {
      for (const person of people) expect(await textsOf(page, person)).toEqual(toldTo(person));
    }, LONG_MS);
  return { url: stage.web.url, wire, publish, toldTo, untilAllTold };
}

function inboxOf(page: Page, person: string) {
  return page.locator(`[data-person="${person}"]`);
}

/** In the order of their arrival. */
async function textsOf(page: Page, person: string): Promise<string[]> {
  return (await inboxOf(page, person).locator("li p").allTextContents()).reverse();
}

function untilState(page: Page, person: string, state: string) {
  return page.waitForSelector(`[data-person="${person}"][data-state="${state}"]`, { timeout: LONG_MS });
}

async function untilLive(page: Page): Promise<void> {
  for (const { id } of PEOPLE) await untilState(page, id, "live");
}

describe("in the example notifications,", () => {
  const browser = useBrowser();

  test("each person gets the notices they follow, once and in order, over a reload in the middle", async () => {
    const { url, publish, toldTo, untilAllTold } = await openExample();
    const page = await browser.open(url);
    await untilLive(page);
    await publish(8);
    await untilAllTold(page);
    expect(toldTo("ada").length).not.toBe(toldTo("bob").length);
    // Some notices come before the page is gone, some meanwhile, some after it is back.
    const publishing = publish(40);
    await page.reload();
    await publishing;
    await untilAllTold(page);
    await publish(5);
    await untilAllTold(page);
    expect(await inboxOf(page, "cy").locator("li").last().locator(".topic").textContent()).toBe("everyone");
  });

  test("a person that was offline, or without a network, gets the missed notices afterwards", async () => {
    const { url, wire, publish, toldTo, untilAllTold } = await openExample();
    const page = await browser.open(url);
    await untilLive(page);
    await publish(4);
    await untilAllTold(page);
    await inboxOf(page, "ada").getByRole("button", { name: "Go offline" }).click();
    const before = toldTo("ada");
    await publish(16);
    await untilAllTold(page, ["bob", "cy"]);
    expect(await textsOf(page, "ada")).toEqual(before);
    await inboxOf(page, "ada").getByRole("button", { name: "Come back" }).click();
    await untilAllTold(page);
    const missed = await inboxOf(page, "ada").locator("li.missed p").allTextContents();
    expect(missed.reverse()).toEqual(toldTo("ada").slice(before.length));

    wire.cut();
    await publish(8);
    wire.heal();
    await untilAllTold(page);
    await untilLive(page);
  });

  test("two tabs of one browser share an inbox, and another browser has its own", async () => {
    const { url, publish, toldTo, untilAllTold } = await openExample();
    const first = await browser.open(`${url}#ada`);
    await untilState(first, "ada", "live");
    await publish(6);
    const second = await first.context().newPage();
    await second.goto(`${url}#ada`);
    await untilAllTold(first, ["ada"]);
    await untilAllTold(second, ["ada"]);
    expect(await second.locator("[data-person]").count()).toBe(1);
    const stranger = await browser.open(`${url}#ada`);
    await untilState(stranger, "ada", "live");
    const before = toldTo("ada").length;
    await publish(6);
    await untilAllTold(first, ["ada"]);
    await eventually(async () => expect(await textsOf(stranger, "ada")).toEqual(toldTo("ada").slice(before)), LONG_MS);
  });

  test("a notice written in the page is published, and the page shows how many inboxes it reached", async () => {
    const { url } = await openExample();
    const page = await browser.open(url);
    await untilLive(page);
    await page.getByText("design", { exact: true }).first().click();
    await page.getByLabel("Text").fill("  hello, designers ");
    await page.getByRole("button", { name: "Send" }).click();
    const told = page.getByText("Appended once, copied to 2 inboxes (inline).");
    await told.waitFor({ timeout: LONG_MS });
    for (const person of ["ada", "cy"]) {
      await eventually(async () => expect(await textsOf(page, person)).toEqual(["hello, designers"]), LONG_MS);
    }
    expect(await textsOf(page, "bob")).toEqual([]);
    await page.getByRole("button", { name: "Play a day" }).click();
    const bobs = DAY.filter(([topic]) => PEOPLE[1]!.follows.includes(topic)).map(([, text]) => text);
    await eventually(async () => expect(await textsOf(page, "bob")).toEqual(bobs), LONG_MS);
  });
});
