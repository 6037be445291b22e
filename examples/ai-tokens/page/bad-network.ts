/**
 * A network that can be cut, for those who want to see what happens then: whatever is under way breaks off, and nothing new
 * gets through until it is back. A page of one's own gives the client no `fetch` at all.
 */
export class BadNetwork {
  private wire = new AbortController();
  private backAt = 0;

  cut(forMs: number): void {
    this.backAt = Date.now() + forMs;
    this.wire.abort(new TypeError("the network was cut"));
    this.wire = new AbortController();
  }

  readonly fetch: typeof fetch = async (input, init) => {
    if (Date.now() < this.backAt) throw new TypeError("the network was cut");
    const signals = [this.wire.signal, ...(init?.signal ? [init.signal] : [])];
    return fetch(input, { ...init, signal: AbortSignal.any(signals) });
  };
}
