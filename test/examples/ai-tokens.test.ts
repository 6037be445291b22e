import { Sluice } from "@sluice/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { ANSWER, tokensOf } from "../../examples/ai-tokens/answer.ts";
import { startExample } from "../../examples/ai-tokens/server.ts";
import { eventually } from "../support/eventually.ts";
import { textOf, untilState, untilText, useBrowser } from "./browser.ts";
import { openStage } from "./stage.ts";
import { Tap } from "./tap.ts";

/** The example's answer, followed by text that a page could render wrongly. */
const TEXT = `${ANSWER}\n<b>No HTML</b> &amp; **an open mark, *naïve* 🌊🌊 \`and\n\n\`\`\`\nan open fence  `;

async function openExample(text = TEXT) {
  const tap = new Tap(text);
  const { stage, server, wire } = await openStage();
  const example = await startExample(stage, tap.model);
  onTestFinished(() => example.close());
  return { tap, server, wire, url: stage.web.url, sluice: new Sluice({ url: stage.sluiceUrl }) };
}

/** Waits until Sluice itself has this much. */
async function untilPublished(sluice: Sluice, address: string, text: string): Promise<void> {
  let published = "";
  for await (const part of sluice.channel(new URL(address).hash.slice(1)).read()) {
    if (part.type === "delta") published += part.payload;
    if (published.length >= text.length) break;
  }
  expect(published).toBe(text);
}

describe("in the example ai-tokens,", () => {
  const browser = useBrowser();

  test("an answer survives a reload in the middle and a cut connection, and is whole for a late viewer", async () => {
    const { tap, wire, url, sluice } = await openExample();
    const first = await browser.open(url);
    await first.getByRole("button", { name: "Ask" }).click();
    await untilText(first, tap.openTo(0.3));
    await untilState(first, "streaming");

    await first.reload();
    await untilText(first, tap.openTo(0.3));
    await untilText(first, tap.openTo(0.5));

    const late = await browser.open(first.url());
    await untilText(late, tap.openTo(0.5));

    const seenBefore = tap.openTo(0.5);
    wire.cut();
    await untilPublished(sluice, first.url(), tap.openTo(0.8));
    expect([await textOf(first), await textOf(late)]).toEqual([seenBefore, seenBefore]);
    wire.heal();
    await Promise.all([first, late].map((page) => untilText(page, tap.openTo(0.8))));

    tap.openTo(1);
    for (const page of [first, late]) {
      await untilState(page, "done");
      expect(await textOf(page)).toBe(TEXT);
    }
  });

  test("a second tab stops the answer after a reload: the model learns it, and every viewer keeps what came", async () => {
    const { tap, url } = await openExample();
    const first = await browser.open(url);
    await first.getByRole("button", { name: "Ask" }).click();
    await untilText(first, tap.openTo(0.3));
    const second = await browser.open(first.url());
    await untilText(second, tap.openTo(0.3));
    await second.reload();
    await untilText(second, tap.openTo(0.4));
    // The model writes nothing while it is stopped.
    await second.getByRole("button", { name: "Stop" }).click();
    for (const page of [first, second]) {
      await untilState(page, "stopped");
      expect(await textOf(page)).toBe(tap.openTo(0.4));
    }
    expect(tap.emptied).toBe(0);
    await untilText(await browser.open(first.url()), tap.openTo(0.4));
  });

  test("a page without its server shows that it reconnects, and resumes by itself", async () => {
    const { tap, url } = await openExample();
    const page = await browser.open(url);
    await page.getByRole("button", { name: "Ask" }).click();
    await untilText(page, tap.openTo(0.4));
    await page.getByRole("button", { name: "Cut connection" }).click();
    await untilState(page, "reconnecting");
    expect(await textOf(page)).toBe(tap.openTo(0.4));
    tap.openTo(1);
    await untilState(page, "done");
    expect(await textOf(page)).toBe(TEXT);
  });

  test("the publisher continues when no viewer is left", async () => {
    const { server, tap, url } = await openExample();
    const page = await browser.open(url);
    await page.getByRole("button", { name: "Ask" }).click();
    await untilText(page, tap.openTo(0.2));
    // The viewer, and the publisher itself, which listens for a stop.
    expect(server.tail.readers).toBe(2);
    const address = page.url();
    await page.close();
    await eventually(() => expect(server.tail.readers).toBe(1));
    tap.openTo(1);
    await eventually(() => expect(tap.emptied).toBe(1));
    const later = await browser.open(address);
    await untilState(later, "done");
    expect(await textOf(later)).toBe(TEXT);
  });

  test("asking again opens another channel, and the back button leads to the first", async () => {
    const { tap, url } = await openExample("One *short* answer.");
    tap.openTo(1);
    const page = await browser.open(url);
    await page.getByRole("button", { name: "Ask" }).click();
    await untilState(page, "done");
    const first = page.url();
    await page.getByRole("button", { name: "Ask again" }).click();
    await eventually(() => expect(page.url()).not.toBe(first));
    await untilState(page, "done");
    expect(await textOf(page)).toBe(tap.text);
    await page.goBack();
    expect(page.url()).toBe(first);
    await untilText(page, tap.text);
    expect(await page.getByRole("link", { name: "second viewer" }).getAttribute("href")).toBe(first);
  });

  test("a missing answer is reported, and the viewer can ask for a new one", async () => {
    const { tap, url } = await openExample("Here.");
    const page = await browser.open(`${url}#long-gone`);
    await untilState(page, "failed");
    expect(await page.getByRole("status").textContent()).toContain("not kept any more");
    tap.openTo(1);
    await page.getByRole("button", { name: "Ask again" }).click();
    await untilState(page, "done");
  });

  test("every beginning of an answer is shown exactly, with nothing lost and nothing added", async () => {
    const { tap, url } = await openExample();
    const page = await browser.open(url);
    await page.getByRole("button", { name: "Ask" }).click();
    for (const share of [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95]) {
      await untilText(page, tap.openTo(share));
    }
    tap.openTo(1);
    await untilState(page, "done");
    const heard = await page.locator("#answer").ariaSnapshot();
    expect(heard).toContain('heading "Reload whenever you like" [level=2]');
    expect(heard.match(/- listitem:/g)).toHaveLength(7);
    expect(heard).toContain("strong: Late is fine.");
    expect(heard).toContain("<b>No HTML</b> &amp;");
    expect(heard).not.toMatch(/##|```ts/);
  });
});

test("the canned answer, split into tokens, is the answer", () => {
  expect(tokensOf(ANSWER).join("")).toBe(ANSWER);
  expect(tokensOf(ANSWER).length).toBeGreaterThan(400);
});
