/** Time and turns of the event loop as Node has them, for a `PubSub` over the wire. */
import { MAX_DELAY_MS } from "../backoff.ts";
import type { QueueWorld } from "./port.ts";

export const nodeWorld: QueueWorld = {
  monotonicMs: () => performance.now(),
  after(ms, task) {
    const timer = setTimeout(task, Math.min(ms, MAX_DELAY_MS));
    return () => clearTimeout(timer);
  },
  soon: (task) => void setImmediate(task),
};
