/** Shows the workers: whether each runs, how many cities it has, and the buttons to end and to start it. */
import type { GroupInfo } from "@sluice/client";
import { WORKERS, type WorkerName, type WorkerState } from "../shop.ts";

const SAYS: Readonly<Record<WorkerState["state"], string>> = { working: "working", leaving: "leaving…", gone: "gone" };

export class WorkerView {
  readonly elements: readonly HTMLElement[];
  private readonly cards: readonly Card[];

  /** `ask` gets what a button asks for. */
  constructor(ask: (words: string) => void) {
    this.cards = WORKERS.map((worker) => new Card(worker, ask));
    this.elements = this.cards.map(({ element }) => element);
  }

  show(states: readonly WorkerState[]): void {
    for (const [i, card] of this.cards.entries()) card.show(states[i]!);
  }

  showMembers(members: GroupInfo["members"]): void {
    for (const card of this.cards) card.showStreams(members.find(({ id }) => id === card.worker.id)?.streams.length);
  }
}

class Card {
  readonly element = document.createElement("li");
  private readonly facts = document.createElement("small");
  private readonly streams = document.createElement("small");
  private readonly buttons = new Map<string, HTMLButtonElement>();

  constructor(
    readonly worker: WorkerName,
    ask: (words: string) => void,
  ) {
    const { id, name, tone } = worker;
    this.element.dataset.tone = String(tone);
    this.element.dataset.worker = id;
    const avatar = Object.assign(document.createElement("span"), { className: "avatar", textContent: name[0]! });
    const title = Object.assign(document.createElement("b"), { textContent: name });
    const about = Object.assign(document.createElement("div"), { className: "about" });
    about.append(title, this.facts, this.streams);
    const actions = Object.assign(document.createElement("div"), { className: "actions" });
    for (const [deed, says] of [
      ["start", "Start"],
      ["stop", "Stop"],
      ["kill", "Kill −9"],
    ] as const) {
      const button = Object.assign(document.createElement("button"), {
        type: "button",
        textContent: says,
        className: deed,
      });
      button.setAttribute("aria-label", `${says} ${name}`);
      button.addEventListener("click", () => ask(`${id} ${deed}`));
      this.buttons.set(deed, button);
      actions.append(button);
    }
    this.element.append(avatar, about, actions);
  }

  show({ state, pid }: WorkerState): void {
    this.element.dataset.state = state;
    this.facts.textContent = SAYS[state];
    this.element.title = pid === undefined ? "" : `process ${pid}`;
    this.buttons.get("start")!.hidden = state !== "gone";
    this.buttons.get("stop")!.hidden = state === "gone";
    this.buttons.get("kill")!.hidden = state === "gone";
  }

  showStreams(count: number | undefined): void {
    this.streams.textContent = count === undefined ? "–" : `${count} ${count === 1 ? "city" : "cities"}`;
  }
}
