/** Shows one city: the worker that has its stream, the orders that wait, and those that were packed. */
import type { GroupInfo } from "@sluice/client";
import { WORKERS } from "../shop.ts";

type StreamInfo = GroupInfo["streams"][number];

/** So many waiting orders fill the bar. */
const FULL = 20;

export class CityView {
  readonly element = document.createElement("li");
  private readonly holder = document.createElement("b");
  private readonly waiting = document.createElement("span");
  private readonly packed = document.createElement("span");
  private readonly bar = document.createElement("i");
  private last: string | undefined;

  constructor(private readonly city: string) {
    const name = Object.assign(document.createElement("h2"), { textContent: city });
    const counts = Object.assign(document.createElement("p"), { className: "counts" });
    counts.append(this.waiting, this.packed);
    const track = Object.assign(document.createElement("div"), { className: "track" });
    track.append(this.bar);
    this.element.append(name, this.holder, track, counts);
  }

  /** Returns what moved, in words. */
  show({ status, borrower, lag, progress }: StreamInfo): string | undefined {
    const { element } = this;
    const worker = WORKERS.find(({ id }) => id === borrower);
    element.dataset.state = status;
    if (worker === undefined) delete element.dataset.tone;
    else element.dataset.tone = String(worker.tone);
    this.holder.textContent =
      worker === undefined ? "no worker" : status === "revoking" ? `${worker.name} finishes` : worker.name;
    this.waiting.textContent = `${lag} waiting`;
    // An offset ends with the number of its message.
    this.packed.textContent = `${Number(progress.split("_")[1])} packed`;
    this.bar.style.width = `${Math.min(100, (100 * lag) / FULL)}%`;
    const now = worker?.name ?? "no worker";
    const before = this.last;
    this.last = now;
    return before === undefined || before === now ? undefined : `${this.city}: ${before} → ${now}`;
  }

  /** An order was packed. */
  flash(_by: string, isAgain: boolean): void {
    this.element.animate(
      [
        { boxShadow: `0 0 0 3px ${isAgain ? "var(--warn)" : "var(--tone, var(--line))"}` },
        { boxShadow: "0 0 0 0 transparent" },
      ],
      { duration: 500, easing: "ease-out" },
    );
  }
}
