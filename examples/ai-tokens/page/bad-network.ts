/**
 * A network that the viewer can cut, to watch the page recover: open requests break off, and new ones fail until it is back.
 * The page passes it to the client; an ordinary page passes no `fetch`.
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
