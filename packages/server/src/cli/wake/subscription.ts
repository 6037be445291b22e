/** A wake subscription as the server shows it, and where. The `wake` commands share it. */
import { usage } from "../exit.ts";

export const SUBSCRIPTIONS = "stream/__ds/subscriptions";

export interface WakeSubscription {
  readonly id: string;
  readonly type: "webhook" | "pull-wake";
  readonly status: string;
  readonly retry_count: number;
  readonly pattern?: string;
  readonly streams: readonly { readonly path: string }[];
  readonly webhook?: { readonly url: string };
  readonly wake_stream?: string;
}

export function subscriptionPath(id: string): string {
  if (id === "" || id === "." || id === "..") throw usage(`${JSON.stringify(id)} is not the id of a wake subscription`);
  return `${SUBSCRIPTIONS}/${encodeURIComponent(id)}`;
}
