/** Shows the messages of a room, newest at the bottom. Messages of one person that follow each other share a head. */
import { avatarOf } from "../../web/avatars.ts";
import type { Said } from "../rooms.ts";
import type { Room, Shown } from "./room.ts";

const TOGETHER_MS = 5 * 60_000;
const MAX_SHOWN = 300;
/** A reader that is this near to the end follows it. */
const NEAR_PX = 80;

export class RoomView {
  private room: Room | undefined;
  private isNear = true;

  constructor(private readonly list: HTMLElement) {
    list.addEventListener("scroll", () => {
      this.isNear = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_PX;
    });
    // The keyboard of a phone takes half of the height.
    new ResizeObserver(() => this.follow()).observe(list);
  }

  show(room: Room): void {
    const { list } = this;
    if (room !== this.room) this.isNear = true;
    this.room = room;
    const messages = room.messages.slice(-MAX_SHOWN);
    list.replaceChildren(...messages.flatMap((shown, i) => rowsOf(shown, messages[i - 1], room)));
    this.follow();
  }

  private follow(): void {
    if (this.isNear) this.list.scrollTop = this.list.scrollHeight;
  }
}

function rowsOf(shown: Shown, previous: Shown | undefined, { me, missed }: Room): HTMLElement[] {
  const row = rowOf(shown, previous);
  row.classList.toggle("mine", shown.said.person.id === me);
  if (missed?.before !== shown.said.id) return [row];
  const { count } = missed;
  const says = `${count} ${count === 1 ? "message" : "messages"} while you were away`;
  return [make("li", "away", says), row];
}

function rowOf({ said, isSent }: Shown, previous: Shown | undefined): HTMLElement {
  const row = make("li", isSent ? "said" : "said sending");
  row.dataset.id = said.id;
  const isTogether = previous !== undefined && isContinued(previous.said, said);
  if (!isTogether) {
    const head = make("div", "head");
    const name = make("b", "", said.person.name);
    const time = make("time", "", new Date(said.at).toLocaleTimeString([], { timeStyle: "short" }));
    head.append(name, time);
    row.append(avatarOf(said.person), head);
  }
  const text = make("p", "", said.text);
  const mark = make("span", "mark", isSent ? "✓" : "sending…");
  mark.title = isSent ? "Stored" : "On its way";
  mark.setAttribute("aria-label", mark.title);
  text.append(mark);
  row.append(text);
  return row;
}

function isContinued(previous: Said, said: Said): boolean {
  return previous.person.id === said.person.id && said.at - previous.at < TOGETHER_MS;
}

function make<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(tag), { className, textContent: text });
}
