import { Sluice } from "@sluice/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startExample as startChat } from "../../examples/chat/server.ts";
import { startExample as startDocument } from "../../examples/collab-doc/server.ts";
import { PageServer } from "../../examples/web/page-server.ts";
import { SluiceProcess } from "../../examples/web/sluice-process.ts";
import { temporaryDir } from "../support/disk.ts";
import { eventually } from "../support/eventually.ts";
import { LONG_MS, type Tab, useTabs } from "./tabs.ts";

/** How long a session lives without being used: the hour of a laptop that sleeps. */
const TTL_SECONDS = 5;
/** One browser and one server process serve both pages, because each takes a while to start. */
const { dir, remove } = temporaryDir();
let server: SluiceProcess;
let documents: PageServer;
let chat: PageServer;

beforeAll(async () => {
  server = await SluiceProcess.start({ port: 0, data: dir, args: ["--session-ttl-seconds", String(TTL_SECONDS)] });
  documents = await PageServer.listen(0);
  chat = await PageServer.listen(0);
  await startDocument({ web: documents, sluiceUrl: server.url });
  await startChat({ web: chat, sluiceUrl: server.url });
  for (const web of [documents, chat]) web.on("/kill", server.onKill);
});

afterAll(async () => {
  await documents?.close();
  await chat?.close();
  await server?.close();
  remove();
});

const tabs = useTabs();

const soon = (check: () => Promise<void>) => eventually(check, LONG_MS);
const words = (tab: Tab) => tab.valueOf("text");
const write = (tab: Tab, text: string, at = 0) => tab.type("text", text, at);
/** How often each passage stands in a text. */
const counts = (text: string, ...passages: readonly string[]) => passages.map((one) => text.split(one).length - 1);

/** The server does not count this as a use of the session. */
async function untilForgotten(sessionId: string): Promise<void> {
  const session = new Sluice({ url: server.url }).inbox(sessionId);
  await soon(() => expect(session.info()).rejects.toMatchObject({ code: "session-not-found" }));
}

async function untilSent(tab: Tab): Promise<void> {
  await soon(async () => expect(await tab.textOf("unsent")).toBe("0"));
}

/** Returns the text that all of them show when nothing is on its way any more. */
async function untilEqual(...all: readonly Tab[]): Promise<string> {
  let text = "";
  await soon(async () => {
    for (const tab of all) expect([await tab.status(), await tab.textOf("unsent")]).toEqual(["live", "0"]);
    const texts = await Promise.all(all.map(words));
    text = texts[0]!;
    expect(texts).toEqual(all.map(() => text));
  });
  return text;
}

describe("in the example collab-doc,", () => {
  test("tabs end equal over edits at the same time, a lost network, a killed server, a reload and an hour of sleep", async () => {
    const address = `${documents.url}#minutes`;
    const [ada, bob, cleo] = [await tabs.open(address), await tabs.open(address), await tabs.open(address)];
    await write(ada, "Minutes");
    await soon(async () => expect(await words(bob)).toBe("Minutes"));
    await Promise.all([write(ada, "[ada]", 7), write(bob, "[bob]", 7)]);
    expect(counts(await untilEqual(ada, bob, cleo), "Minutes", "[ada]", "[bob]")).toEqual([1, 1, 1]);
    const slept = await cleo.session();
    await cleo.setFrozen(true);

    await ada.setOffline(true);
    await ada.untilStatus("offline");
    await write(ada, "(ada offline)", 7);
    await write(bob, "(bob meanwhile)", 7);
    await untilSent(bob);
    expect(counts(await words(bob), "(ada offline)", "(bob meanwhile)")).toEqual([0, 1]);
    expect(counts(await words(ada), "(ada offline)", "(bob meanwhile)")).toEqual([1, 0]);
    await ada.setOffline(false);
    expect(counts(await untilEqual(ada, bob), "(ada offline)", "(bob meanwhile)")).toEqual([1, 1]);

    const { pid } = server;
    await bob.click("kill");
    await Promise.all([write(ada, "{ada, no server}"), write(bob, "{bob, no server}")]);
    await soon(async () => expect(await bob.textOf("killed")).toContain(`Killed process ${pid}.`));
    expect(counts(await untilEqual(ada, bob), "{ada, no server}", "{bob, no server}")).toEqual([1, 1]);

    await write(ada, "<before the reload>");
    await ada.reload();
    expect(counts(await untilEqual(ada, bob), "<before the reload>")).toEqual([1]);

    await untilForgotten(slept);
    await cleo.setFrozen(false);
    const text = await untilEqual(ada, bob, cleo);
    expect(await cleo.session()).not.toBe(slept);
    await write(cleo, "/awake/");
    const late = await tabs.open(address);
    expect(await untilEqual(ada, bob, cleo, late)).toBe(`/awake/${text}`);
  }, 60_000);

  test("a tab that is hidden says at once what it has read, and its duplicate has a session of its own", async () => {
    const address = `${documents.url}#list`;
    const ada = await tabs.open(address);
    const bob = await tabs.open(address);
    const hidden = async () => {
      await ada.show();
      await write(bob, "milk, ");
      await untilEqual(ada, bob);
      // Other heartbeats go over the WebSocket. If one has just said all, a tab that is hidden has nothing to say.
      const isFarewell = (request: { url(): string }) => request.url().endsWith("/heartbeat");
      const farewell = ada.page.waitForRequest(isFarewell, { timeout: 5_000 }).catch(() => undefined);
      await bob.show();
      return farewell;
    };
    const farewell = (await hidden()) ?? (await hidden()) ?? (await hidden());
    const { offset } = await new Sluice({ url: server.url }).stream("doc/list").info();
    expect(farewell?.postDataJSON()).toMatchObject({ offsets: [{ streamId: "doc/list", lastOffset: offset }] });
    const text = await untilEqual(ada, bob);

    const session = await ada.session();
    const twin = await ada.duplicate();
    expect(await twin.session()).not.toBe(session);
    await write(bob, "bread, ");
    expect(await untilEqual(ada, bob, twin)).toBe(`bread, ${text}`);
    await soon(async () => expect(await bob.textOf("people")).toContain("2 tabs"));
    expect(await ada.session()).toBe(session);
  }, 60_000);

  test("an edit that was made offline survives a reload, and is sent once", async () => {
    const address = `${documents.url}#draft`;
    const ada = await tabs.open(address);
    const bob = await tabs.open(address);
    await write(bob, "a draft");
    expect(await untilEqual(ada, bob)).toBe("a draft");
    await ada.click("network");
    await ada.untilStatus("offline");
    await write(ada, "still ");
    expect(await ada.textOf("unsent")).not.toBe("0");
    // The page is another one then, with its network on.
    await ada.reload();
    expect(await untilEqual(ada, bob)).toBe("still a draft");
  }, 60_000);
});

const shown = (tab: Tab): Promise<string[]> =>
  tab.page.evaluate("[...document.querySelectorAll('.said p')].map((row) => row.firstChild.textContent)");
const away = (tab: Tab): Promise<string[]> =>
  tab.page.evaluate("[...document.querySelectorAll('.away')].map((row) => row.textContent)");

async function say(tab: Tab, text: string): Promise<void> {
  await tab.type("message", text);
  await tab.click("send");
}

/** Both show the same messages, and these are the last ones. */
async function untilBothShow(one: Tab, other: Tab, ...last: readonly string[]): Promise<void> {
  await soon(async () => {
    expect([await one.textOf("unsent"), await other.textOf("unsent")]).toEqual(["0", "0"]);
    const messages = await shown(one);
    expect(await shown(other)).toEqual(messages);
    expect(messages.slice(-last.length).sort()).toEqual([...last].sort());
  });
}

describe("in the example chat,", () => {
  test("people see each other, and that one is typing, of which nothing is stored", async () => {
    const ada = await tabs.open(`${chat.url}#support`);
    const bob = await tabs.open(`${chat.url}#support`);
    const name = /^.(.+) \(you\)/.exec(await bob.textOf("people"))![1]!;
    await soon(async () => expect(await ada.textOf("people")).toContain(name));
    const room = new Sluice({ url: server.url }).stream("room/support");
    const before = await room.info();
    await bob.type("message", "hel");
    await soon(async () => expect(await ada.textOf("typing")).toBe(`${name} is typing`));
    expect((await room.info()).offset).toBe(before.offset);
    await bob.type("message", "lo", 3);
    await bob.click("send");
    await untilBothShow(ada, bob, "hello");
    await soon(async () => expect(await ada.textOf("typing")).toBe(""));
    await bob.page.close();
    await soon(async () => expect(await ada.textOf("people")).not.toContain(name));
  }, 60_000);

  test("a person who was away sees how many messages came, and every message comes once", async () => {
    const ada = await tabs.open(chat.url);
    const bob = await tabs.open(chat.url);
    // The window shows Bob, so Ada is away.
    for (const text of ["one", "two", "three"]) await say(bob, text);
    await soon(async () => expect(await ada.page.title()).toMatch(/^\(3\)/));
    await ada.show();
    await soon(async () => expect(await away(ada)).toEqual(["3 messages while you were away"]));

    await ada.setOffline(true);
    await ada.untilStatus("offline");
    await say(bob, "four");
    await say(ada, "from afar");
    await untilSent(bob);
    expect([(await shown(ada)).at(-1), await ada.textOf("unsent")]).toEqual(["from afar", "1"]);
    await ada.setOffline(false);
    await untilBothShow(ada, bob, "four", "from afar");
    // The page says so once its session is live again, which may be a moment after the messages are there.
    await soon(async () => expect(await away(ada)).toEqual(["1 message while you were away"]));

    await ada.click("kill");
    await Promise.all([say(ada, "is it dead?"), say(bob, "not for long")]);
    await untilBothShow(ada, bob, "is it dead?", "not for long");
    await say(ada, "back");
    await ada.reload();
    await untilBothShow(ada, bob, "back");
  }, 60_000);
});
