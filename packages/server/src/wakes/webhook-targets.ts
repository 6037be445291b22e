/**
 * Which addresses webhooks may reach. A URL is checked when a subscription is created. The sender checks the addresses
 * of its name at every delivery, right before it connects. Pure.
 *
 * Invariants: https reaches public addresses. Plain http to this machine, and private networks at all, are for the
 * operator to allow. No setting opens link-local, metadata and other special addresses.
 */
import { addressKind, hostOf, isAddress, isLoopbackName } from "../core/address.ts";

/** What webhooks may reach besides the public internet. */
export interface WebhookReach {
  /** Plain http to this machine. */
  readonly allowLoopback: boolean;
  /** http and https to private networks. */
  readonly allowPrivate: boolean;
}

export type TargetCheck =
  | { readonly kind: "allowed"; readonly url: URL }
  | { readonly kind: "rejected"; readonly why: string };

const MAX_URL_CHARS = 2_048;
const ANY_LOOPBACK = "127.0.0.1";

export function checkWebhookUrl(text: string, reach: WebhookReach): TargetCheck {
  if (text.length > MAX_URL_CHARS) return rejected(`webhook.url must have at most ${MAX_URL_CHARS} characters`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) return rejected("webhook.url must be an absolute URL");
  if (url.username !== "" || url.password !== "") return rejected("webhook.url must not contain credentials");
  const host = hostOf(url);
  const address = isLoopbackName(host) ? ANY_LOOPBACK : isAddress(host) ? host : undefined;
  // Any other name is resolved at each delivery, and then its addresses decide.
  const isAllowed = address === undefined ? mayResolve(url, reach) : mayConnect(url, address, reach);
  return isAllowed ? { kind: "allowed", url } : rejected(ruleText(reach));
}

/** Plain http has a chance only if the name can stand for a private address. */
function mayResolve({ protocol }: URL, { allowPrivate }: WebhookReach): boolean {
  return protocol === "https:" || (protocol === "http:" && allowPrivate);
}

/** Whether a connection for this URL may go to this address, which its name resolves to now. */
export function mayConnect({ protocol }: URL, address: string, { allowLoopback, allowPrivate }: WebhookReach): boolean {
  if (protocol !== "http:" && protocol !== "https:") return false;
  switch (addressKind(address)) {
    case "public":
      return protocol === "https:";
    case "private":
      return allowPrivate;
    case "loopback":
      return allowLoopback && protocol === "http:";
    default:
      return false;
  }
}

function ruleText({ allowLoopback, allowPrivate }: WebhookReach): string {
  const allowed = ["https to a public address"];
  if (allowLoopback) allowed.push("http to localhost");
  if (allowPrivate) allowed.push("http or https to a private address");
  const more =
    allowLoopback && allowPrivate ? "" : "; the operator can set webhook.allowLoopback and webhook.allowPrivate";
  return `webhook.url must be ${allowed.join(", or ")}${more}`;
}

function rejected(why: string): TargetCheck {
  return { kind: "rejected", why };
}
