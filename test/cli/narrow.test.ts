/** Help texts, tables and messages on a narrow terminal: lines break between words only, and nothing is left out. */
import type { Command } from "commander";
import { expect, it } from "vitest";
import { buildProgram } from "../../packages/server/src/cli/program.ts";
import { listing } from "../../packages/server/src/cli/terminal.ts";
import { message } from "../../packages/server/src/cli/wrap.ts";

const WIDTH = 46;

async function helpTexts(width?: number): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  const visit = (command: Command, name: string) => {
    let text = "";
    const writeOut = (part: string) => {
      text += part;
    };
    command.configureOutput({ writeOut });
    command.outputHelp();
    texts.set(name, text);
    for (const child of command.commands) visit(child, `${name} ${child.name()}`);
  };
  visit(await buildProgram("0", width), "sluice");
  return texts;
}

const wordsOf = (text: string) => text.split(/\s+/).filter((word) => word !== "" && word !== "\\");

it("every help text fits 46 columns, except words that are longer than a line", async () => {
  for (const [name, text] of await helpTexts(WIDTH)) {
    for (const line of text.split("\n")) {
      const isOneWord = wordsOf(line).length <= 1 || /^ *'[^']*' ?\\?$/.test(line);
      if (line.length > WIDTH) expect(isOneWord, `${name}: ${line}`).toBe(true);
    }
  }
});

it("a narrow help text has all words of the wide one, in order", async () => {
  const wide = await helpTexts();
  for (const [name, text] of await helpTexts(WIDTH)) expect(wordsOf(text), name).toEqual(wordsOf(wide.get(name)!));
});

it("a list that is too wide for the terminal becomes a block per row", () => {
  const heading = ["PATH", "TYPE", "MESSAGES"];
  const rows = [
    ["chat/room1", "application/json", "12"],
    ["a", "text/plain", "1"],
  ];
  expect(listing(heading, rows, 80)).toBe(
    "PATH        TYPE              MESSAGES\nchat/room1  application/json  12\na           text/plain        1",
  );
  expect(listing(heading, rows, 30)).toBe(
    "PATH      chat/room1\nTYPE      application/json\nMESSAGES  12\n\nPATH      a\nTYPE      text/plain\nMESSAGES  1",
  );
});

it("a message that is too long for the terminal breaks between words, and each of its lines keeps its indent", () => {
  const text =
    "sluice: there is no stream chat/room1 (404 stream-not-found)\n  short\n  made by a command that is long";
  expect(message(text, 30)).toBe(
    "sluice: there is no stream\nchat/room1 (404\nstream-not-found)\n  short\n  made by a command that is\n  long",
  );
  expect(message(text, Number.POSITIVE_INFINITY)).toBe(text);
});
