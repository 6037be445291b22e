/**
 * A network that the visitor can switch off, to watch a page recover: connections break off, and new ones fail until it is on
 * again. A page passes its `fetch` and its `WebSocket` to the client; an ordinary page passes neither.
 */
export class NetworkSwitch {
  private wire = new AbortController();
  private isOn = true;

  off(): void {
    this.isOn = false;
    this.wire.abort(new TypeError("the network is off"));
    this.wire = new AbortController();
  }

  on(): void {
    this.isOn = true;
    // As a browser says it. The client then tries at once instead of after a while.
    dispatchEvent(new Event("online"));
  }

  readonly fetch: typeof fetch = async (input, init) => {
    if (!this.isOn) throw new TypeError("the network is off");
    const signals = [this.wire.signal, ...(init?.signal ? [init.signal] : [])];
    return fetch(input, { ...init, signal: AbortSignal.any(signals) });
  };

  readonly WebSocket = this.socketClass();

  private socketClass() {
    const isOn = () => this.isOn;
    const wire = () => this.wire.signal;
    return class extends WebSocket {
      constructor(url: string) {
        if (!isOn()) throw new TypeError("the network is off");
        super(url);
        wire().addEventListener("abort", () => this.close());
      }
    };
  }
}
