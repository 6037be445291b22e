/**
 * One person's inbox on the page: the name, the connection state, and the notices, newest first. The page makes one per
 * person.
 */
import { type Notice, type Person, streamOf } from "../people.ts";

/** An entry of an inbox: the message, and the stream it came from. */
export interface Copied {
  readonly stream: string;
  readonly payload: Notice;
}

export interface Shown extends Copied {
  readonly offset: string;
  readonly publishedAt: number;
  /** It arrived while the person was offline. */
  readonly isMissed: boolean;
}

export type State = "connecting" | "live" | "reconnecting" | "offline";

const SAYS: Readonly<Record<State, string>> = {
  connecting: "Connecting…",
  live: "Live",
  reconnecting: "Reconnecting…",
  offline: "Offline",
};

const MAX_SHOWN = 200;

export class InboxView {
  readonly root = make("section", "inbox");
  /** The offset of the newest notice; reading resumes after it. */
  last: string | undefined;
  private readonly status = make("span", "status");
  private readonly list = make("ol", "notices");
  private readonly button = make("button", "plain");

  constructor(
    private readonly person: Person,
    toggle: () => void,
  ) {
    const { id, name, follows } = person;
    const who = make("div", "who");
    const avatar = make("span", "avatar", name[0]);
    avatar.setAttribute("aria-hidden", "true");
    const title = make("h2", "", name);
    title.id = `name-${id}`;
    const link = Object.assign(make("a", "own-tab", "↗"), { href: `#${id}`, target: "_blank", rel: "noopener" });
    link.title = `${name} in a tab of its own`;
    link.setAttribute("aria-label", link.title);
    this.button.addEventListener("click", toggle);
    who.append(avatar, title, make("span", "dot"), this.status, this.button);
    const topics = make("p", "follows");
    topics.setAttribute("aria-label", "Follows");
    topics.append(...follows.map((topic) => this.topic(topic)), link);
    this.list.setAttribute("aria-live", "polite");
    this.root.dataset.person = id;
    this.root.setAttribute("aria-labelledby", title.id);
    this.root.append(who, topics, this.list);
  }

  state(state: State): void {
    this.root.dataset.state = state;
    this.status.textContent = SAYS[state];
    this.button.textContent = state === "offline" ? "Come back" : "Go offline";
  }

  add({ stream, payload, offset, publishedAt, isMissed }: Shown): void {
    const item = make("li", isMissed ? "missed" : "");
    const about = make("div", "about");
    about.append(this.topic(stream.slice(streamOf("").length)));
    if (isMissed) about.append(make("span", "while", "while you were away"));
    about.append(make("time", "", new Date(publishedAt).toLocaleTimeString([], { timeStyle: "short" })));
    item.append(about, make("p", "", payload.text));
    this.list.prepend(item);
    if (this.list.children.length > MAX_SHOWN) this.list.lastElementChild!.remove();
    this.last = offset;
  }

  private topic(topic: string): HTMLElement {
    const chip = make("span", "topic", topic === this.person.id ? "you" : topic);
    chip.dataset.topic = topic === this.person.id ? "you" : topic;
    return chip;
  }
}

function make<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  return Object.assign(document.createElement(tag), { className, textContent: text });
}
