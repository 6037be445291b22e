/** The button that kills the Sluice server with signal 9. The page server does it, because it is another process. */

import { wordsFor } from "./words-for.ts";

/** `says` gets what happened, in words. */
export function killOnClick(button: HTMLElement, says: (words: string) => void): void {
  button.addEventListener("click", () => void kill(says));
}

async function kill(says: (words: string) => void): Promise<void> {
  says("kill -9 …");
  try {
    const response = await fetch("/kill", { method: "POST" });
    const { killed, pid, downMs } = (await response.json()) as Record<string, number>;
    says(`Killed process ${killed}. Process ${pid} took over after ${downMs} ms.`);
  } catch (error) {
    says(wordsFor(error));
  }
}
