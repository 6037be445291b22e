/**
 * The page: rooms, the messages of one, the people in it, and who is typing. The part of the address behind # names the room.
 *
 * Invariants: the page keeps its person, what that person has seen, and unsent messages. It reads the rooms from their beginning at
 * every start. Typing is presence, so no keystroke is stored.
 */
import { type LiveSession, type Member, type Presence, Sluice } from "@sluice/client";
import { avatarsOf, type State } from "../../web/avatars.ts";
import { BreakIt } from "../../web/break-it.ts";
import { personIn } from "../../web/person.ts";
import { thisPerson } from "../../web/this-person.ts";
import { Unsent } from "../../web/unsent.ts";
import { ROOMS, type Said, saidIn, streamOf } from "../rooms.ts";
import { Room } from "./room.ts";
import { RoomView } from "./room-view.ts";

declare const SLUICE_URL: string;
/** Without a keystroke for this time a person is not typing any more. */
const TYPING_MS = 2_500;

/** What the others see of this tab. */
interface Shown extends State {
  readonly isTyping: boolean;
}

const element = <E extends HTMLElement>(id: string) => document.getElementById(id) as E;
const me = thisPerson();
const rooms = ROOMS.map(({ id }) => new Room(id, me.id, sessionStorage.getItem(`seen:${id}`) ?? undefined));
const unsent = new Unsent<{ readonly room: string; readonly said: Said }>("unsent:room:");
const view = new RoomView(element("messages"));
const field = element<HTMLTextAreaElement>("message");
const breakIt = new BreakIt();
const { network } = breakIt;
const sluice = new Sluice({
  url: SLUICE_URL,
  fetch: network.fetch,
  retries: { maxMs: 2_000, giveUpMs: Number.POSITIVE_INFINITY },
});

let open = roomAddressed();
let tab: LiveSession | undefined;
let presence: Presence | undefined;
let typing: ReturnType<typeof setTimeout> | undefined;

/** Reads a room from its beginning, and follows it. This is the part to read. */
function follow(room: Room, session: LiveSession): void {
  session.subscribe(
    streamOf(room.id),
    ({ value, offset }) => {
      const said = saidIn(value);
      if (said === undefined) return;
      room.arrived(said, offset);
      update();
    },
    {
      from: "beginning",
      onCatchUp: ({ offset }) => {
        room.caughtUp(offset);
        update();
      },
    },
  );
}

/** The message is shown and kept before it is sent. The client repeats the request until the server has acknowledged it. */
function send(room: Room, said: Said): void {
  unsent.put(said.id, { room: room.id, said });
  room.send(said);
  sluice
    .stream<Said>(streamOf(room.id))
    .append(said)
    .then(
      () => unsent.delete(said.id),
      (error: Error) => console.info(`not sent; the next page of this browser tries again: ${error.message}`),
    );
}

/** Shows this tab in the open room, and no other. */
function enter(session: LiveSession): void {
  presence?.leave();
  presence = session.presence(streamOf(open.id), { state: { person: me, isTyping: false } satisfies Shown });
  presence.on("change", showMembers);
  showMembers([]);
}

function showMembers(members: readonly Member[]): void {
  element("people").replaceChildren(...avatarsOf(members, me));
  const states = members.map(({ state }) => (state ?? {}) as Partial<Shown>);
  const writers = states.filter(({ isTyping }) => isTyping === true).map(({ person }) => personIn(person));
  const names = [...new Set(writers.filter(({ id }) => id !== me.id).map(({ name }) => name))];
  element("typing").textContent =
    names.length === 0 ? "" : `${names.join(" and ")} ${names.length > 1 ? "are" : "is"} typing`;
}

function tellTyping(isTyping: boolean): void {
  clearTimeout(typing);
  if (isTyping === (typing === undefined)) presence?.setState({ person: me, isTyping } satisfies Shown);
  typing = isTyping ? setTimeout(() => tellTyping(false), TYPING_MS) : undefined;
}

function update(): void {
  const isLooking = document.visibilityState === "visible" && tab?.status === "live";
  for (const room of rooms) {
    room.look(isLooking && room === open);
    if (room.seen !== undefined) sessionStorage.setItem(`seen:${room.id}`, room.seen);
  }
  element("rooms").replaceChildren(...rooms.map(linkTo));
  view.show(open);
  const unread = rooms.reduce((sum, room) => sum + room.unread, 0);
  document.title = `${unread > 0 ? `(${unread}) ` : ""}#${open.id} · Sluice`;
  element("unsent").textContent = String(rooms.reduce((sum, room) => sum + room.sendingCount, 0));
}

function linkTo(room: Room): HTMLElement {
  const link = Object.assign(document.createElement("a"), { href: `#${room.id}`, textContent: room.id });
  if (room === open) link.setAttribute("aria-current", "page");
  if (room.unread > 0) link.append(Object.assign(document.createElement("b"), { textContent: String(room.unread) }));
  return link;
}

function roomAddressed(): Room {
  return rooms.find(({ id }) => `#${id}` === location.hash) ?? rooms[0]!;
}

function showRoom(): void {
  open = roomAddressed();
  element("name").textContent = open.id;
  element("about").textContent = ROOMS.find(({ id }) => id === open.id)!.about;
  field.placeholder = `Message to #${open.id}`;
  tellTyping(false);
  if (tab !== undefined) enter(tab);
  update();
}

element<HTMLFormElement>("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = field.value.trim();
  if (text === "") return;
  const at = Date.now();
  send(open, { id: `${at}-${crypto.randomUUID()}`, person: me, text, at });
  field.value = "";
  tellTyping(false);
  update();
});
field.addEventListener("input", () => tellTyping(field.value.trim() !== ""));
field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  field.form!.requestSubmit();
});
addEventListener("hashchange", showRoom);
document.addEventListener("visibilitychange", update);
showRoom();

// What an earlier page of this browser could not send.
for (const [, { room, said }] of unsent.all()) {
  const to = rooms.find(({ id }) => id === room);
  if (to !== undefined) send(to, said);
}
tab = await sluice.session({ WebSocket: network.WebSocket });
breakIt.show(tab);
tab.on("status", update);
for (const room of rooms) follow(room, tab);
enter(tab);
update();
