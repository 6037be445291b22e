/**
 * Which borrower should hold which stream. The leader's rules call it whenever borrowers or streams come or go. Pure.
 *
 * Invariants: no borrower is to hold more than one stream above another. A stream moves only if its borrower holds more than its
 * share, so that the fewest streams move. Equal input gives equal output, in whatever order it is listed.
 */

export interface Borrower {
  readonly id: string;
  /** The member's name, which outlives its borrowers. */
  readonly member: string;
}

export interface Placed {
  readonly path: string;
  /** The borrower that holds the stream; undefined if the stream is free or is being taken away from a borrower. */
  readonly holder?: string | undefined;
  /** The member that held it last. */
  readonly home?: string | undefined;
  /** Whether the stream can be granted now. */
  readonly isFree: boolean;
}

export interface Moves {
  readonly revoke: readonly string[];
  readonly grant: readonly { readonly path: string; readonly borrower: string }[];
}

/** Streams that are being revoked count: they are a part of every share, and are granted once they are free. */
export function assign(streams: readonly Placed[], borrowers: readonly Borrower[]): Moves {
  if (borrowers.length === 0) return { revoke: [], grant: [] };
  const shares = sharesOf(streams, borrowers);
  const free = streams.filter(({ isFree }) => isFree).sort(byPath);
  return { revoke: shares.flatMap(({ held, size }) => surplus(held, size)), grant: granted(free, shares) };
}

interface Share extends Borrower {
  readonly held: readonly Placed[];
  /** How many streams this borrower should hold. */
  readonly size: number;
}

/** The remainder of the division goes to the borrowers that hold the most, because these keep what they have. */
function sharesOf(streams: readonly Placed[], borrowers: readonly Borrower[]): readonly Share[] {
  const held = new Map<string, Placed[]>(borrowers.map(({ id }) => [id, []]));
  for (const stream of streams) if (stream.holder !== undefined) held.get(stream.holder)?.push(stream);
  const least = Math.floor(streams.length / borrowers.length);
  const remainder = streams.length % borrowers.length;
  const heldBy = ({ id }: Borrower) => held.get(id)!;
  return [...borrowers]
    .sort((a, b) => heldBy(b).length - heldBy(a).length || compare(a.id, b.id))
    .map((borrower, i) => ({ ...borrower, held: heldBy(borrower), size: least + (i < remainder ? 1 : 0) }));
}

function surplus(held: readonly Placed[], size: number): string[] {
  if (held.length <= size) return [];
  return [...held]
    .sort(byPath)
    .slice(size)
    .map(({ path }) => path);
}

/** A free stream returns to the member that held it last, if that has room; else to the borrower that lacks the most. */
function granted(free: readonly Placed[], shares: readonly Share[]): Moves["grant"] {
  const grant: { path: string; borrower: string }[] = [];
  const room = new Map(shares.map(({ id, held, size }) => [id, size - held.length]));
  const give = (path: string, borrower: string) => {
    grant.push({ path, borrower });
    room.set(borrower, room.get(borrower)! - 1);
  };
  const byMember = new Map<string, Share[]>();
  for (const share of shares) byMember.set(share.member, [...(byMember.get(share.member) ?? []), share]);
  const homeless: Placed[] = [];
  for (const stream of free) {
    const own = stream.home === undefined ? undefined : byMember.get(stream.home);
    const back = own?.find(({ id }) => room.get(id)! > 0);
    if (back === undefined) homeless.push(stream);
    else give(stream.path, back.id);
  }
  let lacking = shares.filter(({ id }) => room.get(id)! > 0);
  for (let turn = 0; turn < homeless.length && lacking.length > 0; ) {
    for (const { id } of lacking) {
      const stream = homeless[turn];
      if (stream === undefined) break;
      give(stream.path, id);
      turn++;
    }
    lacking = lacking.filter(({ id }) => room.get(id)! > 0);
  }
  return grant;
}

function byPath(a: Placed, b: Placed): number {
  return compare(a.path, b.path);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
