/**
 * The page: a document, its readers, and what happens to it. The part of the address behind # names the document.
 *
 * Invariants: the page keeps nothing but its person and unsent edits. It reads the document from its beginning at every start.
 */
import { type Member, Sluice } from "@sluice/client";
import { avatarsOf, type State } from "../../web/avatars.ts";
import { BreakIt } from "../../web/break-it.ts";
import { personIn } from "../../web/person.ts";
import { thisPerson } from "../../web/this-person.ts";
import { type Edit, FIRST_DOCUMENT, streamOf } from "../edit.ts";
import { Editor, type Other, type Selection } from "./editor.ts";
import { LogView } from "./log-view.ts";
import { SharedDocument } from "./shared-document.ts";

declare const SLUICE_URL: string;

/** What the others see of this tab. */
interface Shown extends State {
  readonly caret?: Selection | undefined;
}

/** A caret that moves is told this often. */
const CARET_MS = 120;

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
  sending: () => {
    element("unsent").textContent = String(shared.sendingCount);
  },
  opened: () => {
    field.disabled = false;
  },
});
const field = element<HTMLTextAreaElement>("text");
const editor = new Editor(field, element("carets"), shared.replica, {
  edited: (deleted, text, after) => shared.replace(deleted, text, after),
  selected: () => tellCaret(),
});

const log = new LogView(element("log"));
let tellCaret = (): void => {};
let edits = 0;

function stored(edit: Edit, offset: string): void {
  log.add(edit);
  element("edits").textContent = String(++edits);
  // Offsets are padded, so that they sort as text.
  element("offset").textContent = offset.replace(/(^|_)0+(?=\d)/g, "$1");
}

/** Another tab of the same person has a caret of its own. */
function showMembers(members: readonly Member[], ownSession: string): void {
  element("people").replaceChildren(...avatarsOf(members, me));
  const others = members.filter(({ sessionId }) => sessionId !== ownSession);
  editor.showOthers(
    others.flatMap(({ state }): Other[] => {
      const { person, caret } = (state ?? {}) as Partial<Shown>;
      return caret === undefined ? [] : [{ ...personIn(person), ...caret }];
    }),
  );
}

element("title").textContent = name.replaceAll("-", " ");
document.title = `${name.replaceAll("-", " ")} · Sluice`;
addEventListener("hashchange", () => location.reload());

const tab = await sluice.session({ WebSocket: network.WebSocket });
breakIt.show(tab);
await shared.open(tab);
const presence = tab.presence(streamOf(name), { state: { person: me } satisfies Shown });
presence.on("change", (members) => showMembers(members, tab.id));
let isTelling = false;
tellCaret = () => {
  if (isTelling) return;
  isTelling = true;
  setTimeout(() => {
    isTelling = false;
    presence.setState({ person: me, caret: editor.selection } satisfies Shown);
  }, CARET_MS);
};
