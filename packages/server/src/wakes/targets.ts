/**
 * Which addresses webhooks may reach. A URL is checked when a subscription is created. The sender checks the addresses
 * of its name at every delivery, right before it connects. Pure.
 *
 * Invariants: only addresses that are reachable from the public internet pass; any other or unknown address is refused.
 * The one exception, plain http to this machine, is a setting for development.
 */
export type TargetCheck =
  | { readonly kind: "allowed"; readonly url: URL }
  | { readonly kind: "rejected"; readonly why: string };

const MAX_URL_CHARS = 2_048;

export function checkWebhookUrl(text: string, allowLoopback: boolean): TargetCheck {
  if (text.length > MAX_URL_CHARS) return rejected(`webhook.url must have at most ${MAX_URL_CHARS} characters`);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined) return rejected("webhook.url must be an absolute URL");
  if (url.username !== "" || url.password !== "") return rejected("webhook.url must not contain credentials");
  const host = hostOf(url);
  const isLocal = host === "localhost" || (parseIPv4(host) !== undefined && isLoopback(host));
  if (url.protocol === "http:") {
    if (isLocal && allowLoopback) return { kind: "allowed", url };
    const exception = allowLoopback ? ", or http to localhost" : "";
    return rejected(`webhook.url must use https${exception}`);
  }
  if (url.protocol !== "https:") return rejected("webhook.url must use https");
  if (host === "localhost" || host.endsWith(".localhost")) return rejected("webhook.url must not name this machine");
  if (isAddress(host) && !isPublic(host)) return rejected("webhook.url must not name a private or special address");
  return { kind: "allowed", url };
}

/** Whether a connection for this URL may go to this address, which its name resolves to now. */
export function mayConnect(url: URL, address: string, allowLoopback: boolean): boolean {
  return url.protocol === "http:" ? allowLoopback && isLoopback(address) : isPublic(address);
}

/** Host name or address, without brackets or the dot that may end a name. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}

export function isAddress(host: string): boolean {
  return parseIPv4(host) !== undefined || parseIPv6(host) !== undefined;
}

function isLoopback(address: string): boolean {
  const v4 = parseIPv4(address);
  if (v4 !== undefined) return v4 >>> 24 === 127;
  const v6 = parseIPv6(address);
  return v6 !== undefined && v6 === 1n;
}

/**
 * Special-purpose networks: private, loopback, link-local, shared, documentation, multicast. First address and prefix
 * length.
 */
const SPECIAL_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
];

/** In IPv6 only global unicast (2000::/3) passes, without its special-purpose networks and wrapped IPv4 addresses. */
const GLOBAL_V6 = ["2000::", 3] as const;
const SPECIAL_V6: readonly (readonly [string, number])[] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
];

export function isPublic(address: string): boolean {
  const v4 = parseIPv4(address);
  if (v4 !== undefined)
    return !SPECIAL_V4.some(([net, bits]) => v4 >>> (32 - bits) === parseIPv4(net)! >>> (32 - bits));
  const v6 = parseIPv6(address);
  if (v6 === undefined) return false;
  return isInV6(v6, GLOBAL_V6) && !SPECIAL_V6.some((net) => isInV6(v6, net));
}

function isInV6(address: bigint, [net, bits]: readonly [string, number]): boolean {
  const shift = BigInt(128 - bits);
  return address >> shift === parseIPv6(net)! >> shift;
}

/** Dotted decimal only, because URL parsing has normalized every other notation. */
function parseIPv4(text: string): number | undefined {
  if (!/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) return undefined;
  const bytes = text.split(".").map(Number);
  if (bytes.some((byte) => byte > 255)) return undefined;
  return ((bytes[0]! << 24) | (bytes[1]! << 16) | (bytes[2]! << 8) | bytes[3]!) >>> 0;
}

/** Undefined if the text is not an IPv6 address. An address with a zone is link-local and is not accepted. */
function parseIPv6(text: string): bigint | undefined {
  if (!/^[0-9a-f:.]+$/i.test(text) || !text.includes(":")) return undefined;
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  const v4 = dotted === null ? undefined : parseIPv4(dotted[2]!);
  if (dotted !== null && v4 === undefined) return undefined;
  const plain = v4 === undefined ? text : `${dotted![1]}${(v4 >>> 16).toString(16)}:${(v4 & 0xffff).toString(16)}`;
  const halves = plain.split("::");
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const missing = 8 - head!.length - (tail?.length ?? 0);
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...head!, ...Array<string>(tail === undefined ? 0 : missing).fill("0"), ...(tail ?? [])];
  if (groups.some((group) => !/^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return groups.reduce((sum, group) => (sum << 16n) | BigInt(Number.parseInt(group, 16)), 0n);
}

function rejected(why: string): TargetCheck {
  return { kind: "rejected", why };
}
