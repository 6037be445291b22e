/**
 * A fetch that fails where a test says so: requests that never leave, answers that are lost after the server has acted,
 * bodies that are cut in the middle, refusals of a proxy. The client's tests use it.
 *
 * Invariants: the plan decides each fault by the request and its index; `sent` records every request.
 */

export type Fault =
  /** The request never arrives. */
  | { readonly kind: "refuse" }
  /** The server acts, and its answer is lost. */
  | { readonly kind: "lose-answer" }
  /** The body ends after this many bytes. */
  | { readonly kind: "cut-body"; readonly afterBytes: number }
  /** A proxy answers instead of the server. */
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
    };

export interface Sent {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: string | undefined;
  readonly at: number;
}

/** The fate of a request; requests are numbered from 0 in the order of their calls. */
export type Plan = (request: Sent, index: number) => Fault | undefined;

export interface FaultyFetch {
  readonly fetch: typeof fetch;
  readonly sent: Sent[];
}

export function faultyFetch(plan: Plan = () => undefined): FaultyFetch {
  const sent: Sent[] = [];
  const faulty: typeof fetch = async (input, init) => {
    const request: Sent = {
      method: init?.method ?? "GET",
      url: String(input),
      headers: new Headers(init?.headers),
      body: typeof init?.body === "string" ? init.body : undefined,
      at: Date.now(),
    };
    const fault = plan(request, sent.length);
    sent.push(request);
    if (fault?.kind === "refuse") throw new TypeError("connection refused by the test");
    if (fault?.kind === "answer") return new Response(fault.body ?? null, fault);
    const response = await fetch(input, init);
    if (fault?.kind === "lose-answer") {
      await response.arrayBuffer();
      throw new TypeError("connection reset by the test");
    }
    return fault === undefined ? response : cut(response, fault.afterBytes);
  };
  return { fetch: faulty, sent };
}

function cut(response: Response, afterBytes: number): Response {
  if (response.body === null) return response;
  const reader = response.body.getReader();
  let left = afterBytes;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      if (value.length <= left) {
        left -= value.length;
        return controller.enqueue(value);
      }
      if (left > 0) controller.enqueue(value.subarray(0, left));
      controller.error(new TypeError("connection cut by the test"));
      await reader.cancel();
    },
    cancel: () => reader.cancel(),
  });
  const { status, headers } = response;
  return new Response(body, { status, headers });
}

/** Draws the same numbers for the same seed. */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
