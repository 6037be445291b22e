/**
 * Stands in for a language model: the same few hundred words every time, in pieces of a few letters, at the pace of a very
 * fast typist. The server of the example reads it; any source of text can take its place.
 */
import { setTimeout as sleep } from "node:timers/promises";

export type Model = (signal: AbortSignal) => AsyncIterable<string>;

export const ANSWER = `## Reload whenever you like

The short version: **this page does not own the answer, it only watches it.** The tokens go into a channel on the Sluice \
server first, and every viewer reads them from there. When you reload, the page forgets everything but its address, and the \
address is all it needs.

### What happens, step by step

1. You press *Ask*. The program behind this page opens a channel and begins to write, a few tokens at a time.
2. Whatever the channel takes is kept before it is acknowledged. A request that got no answer is sent again and recognized, \
so nothing is doubled.
3. Your browser reads the channel from its beginning: first what is there already, then what comes.
4. If the connection breaks, the reader returns with the offset of the last message it saw, and goes on *after* it.

### In code

Publishing takes a few lines, and none of them is about retries, batches or rate limits:

\`\`\`ts
const answer = sluice.channel(id).publisher();
for await (const token of model(question)) {
  await answer.write(token);
}
await answer.end();
\`\`\`

Following takes even fewer, from as many tabs and devices as you like:

\`\`\`ts
for await (const part of sluice.channel(id).read()) {
  if (part.type === "delta") show(part.payload);
}
\`\`\`

### Worth knowing

- **Closing the tab stops nothing.** The publisher runs elsewhere. Come back later, and the rest is there.
- **Late is fine.** A viewer that opens the link halfway through sees all of it, and then the live end.
- **Nothing to clean up.** A channel that has ended stays for a while (\`channel.ttlMs\`) and then goes away by itself.

So go ahead: reload in the middle of this sentence, open a second viewer, or cut the connection. Every viewer \
ends up with the same words, in the same order, down to the last full stop.
`;

export async function* madeUpModel(signal: AbortSignal): AsyncGenerator<string> {
  for (const token of tokensOf(ANSWER)) {
    await sleep(pauseBefore(token), undefined, { signal });
    yield token;
  }
}

/** Up to five letters with the space before them, roughly like the tokens of a model. */
export function tokensOf(text: string): string[] {
  return text.match(/\s*\S{1,5}|\s+$/gu) ?? [];
}

function pauseBefore(token: string): number {
  return token.startsWith("\n\n") ? 250 : 15 + Math.random() * 30;
}
