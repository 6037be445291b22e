/**
 * IP addresses and host names as text: what network an address belongs to, and which names mean this machine. The rule for webhook
 * targets, the rule for Host and Origin, and the configuration call it. Pure.
 *
 * Invariants: an address that no table names as private or loopback is public only if it is reachable from the open internet;
 * every other address is special. Only the notation that URL parsing leaves is an address.
 */

/**
 * `special`: link-local, unspecified, multicast, documentation, metadata services of clouds, and IPv4 wrapped in IPv6. No
 * webhook has a reason to reach one.
 */
export type AddressKind = "public" | "private" | "loopback" | "special";

/** First address and prefix length. */
type Network = readonly [string, number];

/** These lie within private networks, but a cloud gives credentials away there. */
const METADATA: readonly Network[] = [
  ["100.100.100.200", 32],
  ["fd00:ec2::254", 128],
  ["fd20:ce::254", 128],
];

const LOOPBACK: readonly Network[] = [
  ["127.0.0.0", 8],
  ["::1", 128],
];

const PRIVATE: readonly Network[] = [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["fc00::", 7],
];

const PUBLIC: readonly Network[] = [
  ["0.0.0.0", 0],
  ["2000::", 3],
];

/** What the public networks contain that is not public, besides the networks above. */
const NOT_PUBLIC: readonly Network[] = [
  ["0.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
];

/** Undefined if the text is not an address. */
export function addressKind(text: string): AddressKind | undefined {
  const address = parse(text);
  if (address === undefined) return undefined;
  if (isIn(METADATA, address)) return "special";
  if (isIn(LOOPBACK, address)) return "loopback";
  if (isIn(PRIVATE, address)) return "private";
  return isIn(PUBLIC, address) && !isIn(NOT_PUBLIC, address) ? "public" : "special";
}

export function isAddress(text: string): boolean {
  return parse(text) !== undefined;
}

/** Host name or address of a URL, without brackets or the dot that may end a name. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}

/** Names that browsers and resolvers map to this machine without asking a name server. */
export function isLoopbackName(name: string): boolean {
  return name === "localhost" || name.endsWith(".localhost");
}

/** Whether a host, in lower case and without brackets, is this machine by its name or its address. */
export function isLoopbackHost(host: string): boolean {
  if (isLoopbackName(host)) return true;
  const address = parse(host);
  return address !== undefined && isIn(LOOPBACK, unmapped(address));
}

interface Address {
  readonly value: bigint;
  readonly bits: 32 | 128;
}

function parse(text: string): Address | undefined {
  const v4 = parseIPv4(text);
  if (v4 !== undefined) return { value: BigInt(v4), bits: 32 };
  const v6 = parseIPv6(text);
  return v6 === undefined ? undefined : { value: v6, bits: 128 };
}

const MAPPED_PREFIX = 0xffffn;

/** The IPv4 address that ::ffff:0:0/96 wraps, or the address itself. */
function unmapped(address: Address): Address {
  const isMapped = address.bits === 128 && address.value >> 32n === MAPPED_PREFIX;
  return isMapped ? { value: address.value & 0xffffffffn, bits: 32 } : address;
}

function isIn(networks: readonly Network[], { value, bits }: Address): boolean {
  return networks.some(([first, prefix]) => {
    const network = parse(first)!;
    const shift = BigInt(bits - prefix);
    return network.bits === bits && network.value >> shift === value >> shift;
  });
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
