/**
 * The page. Its only state is its address: the part behind # is the id of the shown channel.
 *
 * Invariants: a reload, a second viewer and the back button are one case: read the channel from its beginning.
 */
import { Sluice, SluiceError } from "@sluice/client";
import { killOnClick } from "../../web/kill-button.ts";
import { NetworkSwitch } from "../../web/network-switch.ts";
import { wordsFor } from "../../web/words-for.ts";
import { AnswerView } from "./answer-view.ts";

declare const SLUICE_URL: string;
const CUT_MS = 2_000;

type State = "idle" | "asking" | "streaming" | "reconnecting" | "done" | "stopped" | "failed";

const element = (id: string) => document.getElementById(id)!;
const view = new AnswerView(element("answer"));
const network = new NetworkSwitch();
const question = element("question") as HTMLInputElement;
const TITLE = element("asked").textContent!;
let watching = new AbortController();

const sluice = new Sluice({
  url: SLUICE_URL,
  fetch: network.fetch,
  retries: { maxMs: 2_000, onRetry: () => setState("reconnecting", "Reconnecting…") },
});

/** Shows a channel: its kept messages, then new ones. The client handles broken connections. */
async function follow(id: string, signal: AbortSignal): Promise<void> {
  let text = "";
  let failure: unknown;
  setState("asking", "Connecting…");
  for await (const part of sluice.channel(id).read({ signal })) {
    if (part.type === "start") {
      setState("streaming", "Thinking…");
      element("asked").textContent = questionIn(part.payload);
    }
    if (part.type === "gap") text += "\n\n*(Part of this answer is not kept any more.)*\n\n";
    if (part.type === "error") failure = part.payload;
    if (part.type === "delta") {
      text += part.payload;
      setState("streaming", `Streaming · ${wordsIn(text)} words`);
    }
    view.show(text, part.type === "end" ? "complete" : "growing");
    if (part.type !== "end") continue;
    const isStopped = (part.payload as { stopped?: boolean } | null)?.stopped === true;
    if (isStopped) setState("stopped", `Stopped · ${wordsIn(text)} words`);
    else if (failure === undefined) setState("done", `Done · ${wordsIn(text)} words`);
    else setState("failed", `Stopped: ${failure}`);
  }
}

async function ask(): Promise<void> {
  setState("asking", "Asking…");
  const response = await fetch("/ask", { method: "POST", body: question.value });
  if (!response.ok) throw new Error(await response.text());
  const { id } = (await response.json()) as { id: string };
  location.hash = id; // showAddressed() does the rest.
}

async function showAddressed(): Promise<void> {
  watching.abort();
  watching = new AbortController();
  const { signal } = watching;
  const id = location.hash.slice(1);
  view.clear();
  element("ask").textContent = id === "" ? "Ask" : "Ask again";
  element("second").hidden = id === "";
  element("second").setAttribute("href", location.href);
  element("asked").textContent = TITLE;
  if (id === "") setState("idle", "Ready");
  else await follow(id, signal).catch((error) => !signal.aborted && sayWhy(error));
}

function sayWhy(error: unknown): void {
  const isGone = error instanceof SluiceError && error.code === "channel-not-found";
  setState("failed", isGone ? "This answer is not kept any more." : wordsFor(error));
}

/** The channel begins with the question, so every viewer shows it. */
function questionIn(payload: unknown): string {
  const asked = (payload as { question?: unknown } | null)?.question;
  return typeof asked === "string" && asked !== "" ? asked : TITLE;
}

function setState(state: State, says: string): void {
  document.documentElement.dataset.state = state;
  // Screen readers announce a change of state only, not the count.
  element("status").textContent = says;
  const [spoken] = says.split(" · ");
  if (element("spoken").textContent !== spoken) element("spoken").textContent = spoken!;
}

function wordsIn(text: string): number {
  return text.match(/[\p{L}\p{N}]+/gu)?.length ?? 0;
}

element("ask").addEventListener("click", () => void ask().catch(sayWhy));
element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  void ask().catch(sayWhy);
});
// Any viewer may stop the answer, also after a reload: the publisher learns it from the channel.
element("stop").addEventListener("click", () => void sluice.channel(location.hash.slice(1)).stop().catch(sayWhy));
element("cut").addEventListener("click", () => {
  network.off();
  setTimeout(() => network.on(), CUT_MS);
});
killOnClick(element("kill"), (words) => console.info(words));
addEventListener("hashchange", showAddressed);
void showAddressed();
