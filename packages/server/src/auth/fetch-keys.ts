/**
 * Fetches a published key set over HTTP, with a limit on time and size. `compose` creates it; tests and the simulator
 * provide their own.
 *
 * Invariants: it follows no redirect, because keys may come only from the configured URL.
 */
import type { World } from "../core/world.ts";
import type { Fetched, KeysFetcher } from "./key-set.ts";
import { AUTH_DEFAULTS } from "./options.ts";

export function keysFetcher(world: World, maxBytes = AUTH_DEFAULTS.jwksBytes): KeysFetcher {
  return async (url, timeoutMs) => {
    const abort = new AbortController();
    const cancel = world.after(timeoutMs, () => abort.abort());
    try {
      const response = await fetch(url, {
        signal: abort.signal,
        redirect: "error",
        headers: { Accept: "application/jwk-set+json, application/json" },
      });
      if (response.status !== 200) {
        await response.body?.cancel();
        return { kind: "failed", why: `the server of the key set answered with status ${response.status}` };
      }
      return await readBounded(response, maxBytes);
    } catch (fault) {
      const why = abort.signal.aborted ? `no response within ${timeoutMs} ms` : reasonOf(fault);
      return { kind: "failed", why: `the key set cannot be fetched: ${why}` };
    } finally {
      cancel();
    }
  };
}

async function readBounded(response: Response, maxBytes: number): Promise<Fetched> {
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    // Leaving the loop cancels the rest.
    if (length > maxBytes) return { kind: "failed", why: `the key set has more than ${maxBytes} bytes` };
    text += decoder.decode(chunk, { stream: true });
  }
  return { kind: "fetched", text: text + decoder.decode() };
}

/** The code of a network fault, without the URL, which may contain a credential. */
function reasonOf(fault: unknown): string {
  const { cause } = fault as { cause?: { code?: unknown } };
  return typeof cause?.code === "string" ? cause.code : "the connection failed";
}
