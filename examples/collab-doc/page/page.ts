/**
 * The page: a document, its readers, and what happens to it. The part of the address behind # names the document.
 *
 * Invariants: the page keeps nothing but its person and unsent edits. It reads the document from its beginning at every start.
 */
import { type Member, Sluice } from "@sluice/client";
import { avatarsOf } from "../../web/avatars.ts";
import { BreakIt } from "../../web/break-it.ts";
import { personIn, thisPerson } from "../../web/person.ts";
import { type Edit, FIRST_DOCUMENT, streamOf } from "../edit.ts";
import type { Id } from "../replica.ts";
import { Editor, type Other } from "./editor.ts";
import { SharedDocument } from "./shared-document.ts";

declare const SLUICE_URL: string;
/** A caret that moves is told this often. */
const CARET_MS = 120;
const SHOWN_EDITS = 7;

const element = <E extends HTMLElement>(id: string) => document.getElementById(id) as E;
const me = thisPerson();
const name = decodeURIComponent(location.hash.slice(1)) || FIRST_DOCUMENT;
const breakIt = new BreakIt();
const { network } = breakIt;
const sluice = new Sluice({
  url: SLUICE_URL,
  fetch: network.fetch,
  retries: { maxMs: 2_000, giveUpMs: Number.POSITIVE_INFINITY },
});

const shared = new SharedDocument(sluice, name, me.name, {
  changed: () => editor.show(),
  stored,
  opened: () => {
    field.disabled = false;
  },
});
const field = element<HTMLTextAreaElement>("text");
const editor = new Editor(field, element("carets"), shared.replica, {
  edited: (deleted, text, after) => {
    const letters = shared.replace(deleted, text, after);
    showUnsent();
    return letters;
  },
  selected: () => tellCaret(),
});

let tellCaret = (): void => {};
let edits = 0;

function stored({ by, operations }: Edit, offset: string): void {
  const item = document.createElement("li");
  const who = Object.assign(document.createElement("b"), { textContent: by });
  item.append(who, ` ${operations.map(wordsFor).join(", ")}`);
  const list = element("log");
  list.prepend(item);
  if (list.children.length > SHOWN_EDITS) list.lastElementChild!.remove();
  element("edits").textContent = String(++edits);
  element("offset").textContent = offset.replace(/^0+(?=\d)/g, "").replace(/_0+(?=\d)/g, "_");
  showUnsent();
}

function wordsFor(operation: Edit["operations"][number]): string {
  if (operation.type === "insert") return `wrote “${shortened(operation.text)}”`;
  const count = operation.runs.reduce((sum, [, , length]) => sum + length, 0);
  return `removed ${count} ${count === 1 ? "letter" : "letters"}`;
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > 24 ? `${line.slice(0, 24)}…` : line;
}

/** Acknowledgements come a moment after the edit itself. */
function showUnsent(): void {
  element("unsent").textContent = String(shared.unsentCount);
  if (shared.unsentCount > 0) setTimeout(showUnsent, 500);
}

function showMembers(members: readonly Member[], own: string): void {
  element("people").replaceChildren(...avatarsOf(members, own));
  const others = members.filter(({ sessionId }) => sessionId !== own);
  editor.showOthers(
    others.flatMap(({ state }): Other[] => {
      const { caret } = (state ?? {}) as { caret?: { from?: Id; to?: Id } };
      return caret === undefined ? [] : [{ ...personIn(state), ...caret }];
    }),
  );
}

element("title").textContent = name.replaceAll("-", " ");
document.title = `${name.replaceAll("-", " ")} · Sluice`;
addEventListener("hashchange", () => location.reload());

const tab = await sluice.session({ WebSocket: network.WebSocket });
breakIt.show(tab);
await shared.open(tab);
const presence = tab.presence(streamOf(name), { state: me });
presence.on("change", (members) => showMembers(members, tab.id));
let telling: ReturnType<typeof setTimeout> | undefined;
tellCaret = () => {
  telling ??= setTimeout(() => {
    telling = undefined;
    presence.setState({ ...me, caret: editor.selection });
  }, CARET_MS);
};
