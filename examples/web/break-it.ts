/**
 * What a live page has in common: the status pill, the facts of the session, and the panel with which a visitor breaks things, the
 * network of the tab or the server. The HTML of the page has the elements.
 */
import type { LiveSession, LiveStatus } from "@sluice/client";
import { killOnClick } from "./kill-button.ts";
import { NetworkSwitch } from "./network-switch.ts";

const SAYS: Readonly<Record<LiveStatus, string>> = {
  connecting: "Connecting…",
  "catching-up": "Catching up…",
  live: "Live",
  offline: "Offline",
};

const element = (id: string) => document.getElementById(id)!;

export class BreakIt {
  readonly network = new NetworkSwitch();
  private isOffline = false;

  constructor() {
    element("network").addEventListener("click", () => this.switchNetwork());
    killOnClick(element("kill"), (words) => {
      element("killed").textContent = words;
    });
    element("another").setAttribute("href", location.href);
  }

  show(tab: LiveSession): void {
    const update = (status: LiveStatus) => {
      document.documentElement.dataset.status = status;
      element("status").textContent = SAYS[status];
      element("session").textContent = tab.id.slice(0, 8);
    };
    tab.on("status", update);
    update(tab.status);
  }

  private switchNetwork(): void {
    this.isOffline = !this.isOffline;
    element("network").textContent = this.isOffline ? "Go online" : "Go offline";
    if (this.isOffline) this.network.off();
    else this.network.on();
  }
}
