/** A stream of a subscription as its dispatcher sees it: what it takes, and what it has. */
import type { StreamEvents } from "./contract.ts";
import type { Flow } from "./flow.ts";

export interface Holder {
  /** Unique within its dispatcher. */
  readonly id: string;
  readonly flow: Flow;
  readonly isSequential: boolean;
  /** How long its messages are leased; undefined for the subscription's deadline. */
  leaseMs: number | undefined;
  readonly events: StreamEvents;
  isPaused: boolean;
  /** It takes no more; it is kept until what it has is answered or has expired. */
  isClosed: boolean;
  /** Messages are read again for it; until they come it gets no others, so that their order holds. */
  isFetching: boolean;
  outstanding: number;
}
