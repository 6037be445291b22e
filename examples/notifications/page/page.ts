/**
 * The page: three people side by side, or one of them when the address names one (`#ada`).
 *
 * Invariants: it stores only the id of each person's session and the offset of the last seen notice. The notices stay in the
 * inbox and are read from there.
 */
import { type Fanout, Sluice } from "@sluice/client";
import { killOnClick } from "../../web/kill-button.ts";
import { wordsFor } from "../../web/words-for.ts";
import { PEOPLE, type Person, streamOf, TOPICS } from "../people.ts";
import { type Copied, InboxView } from "./inbox-view.ts";

declare const SLUICE_URL: string;
const AGAIN_MS = 1_000;

const element = <E extends HTMLElement>(id: string) => document.getElementById(id) as E;

/** One person: one inbox, several streams, one loop. This is the part to read. */
async function follow({ id, follows }: Person, view: InboxView, signal: AbortSignal): Promise<void> {
  const inbox = sluiceFor(view).inbox<Copied>(sessionOf(id));
  // Subscribing is idempotent, so every start does it; an expired session is made anew.
  for (const topic of follows) await inbox.subscribe(streamOf(topic), { format: "envelope", signal });
  const seen = localStorage.getItem(`seen:${id}`) ?? "";
  let isCatchingUp = true;
  for await (const item of inbox.live({ from: view.last ?? "beginning", marks: true, signal })) {
    if (item.type === "caught-up") {
      isCatchingUp = false;
      view.state("live");
    }
    if (item.type !== "message") continue;
    const { offset, publishedAt = Date.now(), value } = item;
    // Offsets sort as text, so a comparison tells whether a notice arrived between the last seen one and this visit.
    view.add({ ...value, offset, publishedAt, isMissed: offset > seen && isCatchingUp && seen !== "" });
    localStorage.setItem(`seen:${id}`, offset);
  }
}

/** Made once per browser; a reload and a second tab get the same id. */
function sessionOf(person: string): string {
  const known = localStorage.getItem(`session:${person}`) ?? crypto.randomUUID();
  localStorage.setItem(`session:${person}`, known);
  return known;
}

/** The client retries; the view only shows it. A reader that has caught up again says so with a mark. */
function sluiceFor(view: InboxView): Sluice {
  return new Sluice({ url: SLUICE_URL, retries: { maxMs: 2_000, onRetry: () => view.state("reconnecting") } });
}

/** Continues until the person goes offline, over failures of the network and the end of the session. */
async function stayOnline(person: Person, view: InboxView, signal: AbortSignal): Promise<void> {
  view.state("connecting");
  while (!signal.aborted) {
    try {
      await follow(person, view, signal);
    } catch (error) {
      if (signal.aborted) return;
      console.info(`${person.name}: ${(error as Error).message}`);
      view.state("reconnecting");
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

function show(person: Person): HTMLElement {
  let online: AbortController | undefined;
  const toggle = () => {
    if (online === undefined) {
      online = new AbortController();
      void stayOnline(person, view, online.signal);
    } else {
      online.abort();
      online = undefined;
      view.state("offline");
    }
  };
  const view = new InboxView(person, toggle);
  toggle();
  return view.root;
}

async function send(topic: string, text: string): Promise<void> {
  const response = await fetch("/send", { method: "POST", body: JSON.stringify({ topic, text }) });
  if (!response.ok) throw new Error(await response.text());
  const { count, successes, mode } = (await response.json()) as Fanout;
  const copies = successes === count ? `${count}` : `${successes} of ${count}`;
  element("told").textContent = `Appended once, copied to ${copies} ${count === 1 ? "inbox" : "inboxes"} (${mode}).`;
}

function choiceOf(topic: string): HTMLElement {
  const label = document.createElement("label");
  label.dataset.topic = topic;
  const input = Object.assign(document.createElement("input"), { type: "radio", name: "topic", value: topic });
  input.checked = topic === "everyone";
  label.append(input, topic);
  return label;
}

element<HTMLFormElement>("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = element<HTMLInputElement>("text");
  const topic = new FormData(event.target as HTMLFormElement).get("topic") as string;
  if (field.value.trim() === "") return;
  send(topic, field.value).then(
    () => {
      field.value = "";
    },
    (error: unknown) => {
      element("told").textContent = wordsFor(error);
    },
  );
});
element("day").addEventListener("click", () => void fetch("/day", { method: "POST" }));
killOnClick(element("kill"), (words) => {
  element("told").textContent = words;
});
addEventListener("hashchange", () => location.reload());

const named = PEOPLE.filter(({ id }) => `#${id}` === location.hash);
element("topics").append(...TOPICS.map(choiceOf));
element("people").append(...(named.length > 0 ? named : PEOPLE).map(show));
