/**
 * Finds the place of a fork in its source: the offset, the ancestors that it reads, and the part of a message that it
 * takes over. Called by `Forks` before it changes either stream.
 *
 * Invariants: a fork point has exactly the messages 1 to `seq` of the source before it, of whatever generations, so that
 * the fork numbers on without a hole.
 */
import { comparePositions, type Position } from "@sluice/protocol";
import type { Engine, Head } from "../engine/contract.ts";
import type { StreamLimits } from "./defaults.ts";
import { readPage } from "./reading.ts";
import { type Ancestor, isJson, type Meta } from "./state.ts";

export interface ForkPoint {
  readonly kind: "point";
  readonly lineage: readonly Ancestor[];
  /** The part of the source's next message that becomes a message of the fork. */
  readonly prefix: readonly Uint8Array[];
}

/** `unknown`: no place in this life of the source; of an earlier stream at its path, or lost in a failover. */
type Misplaced = "ahead" | "trimmed" | "unknown";

export type ForkPointOutcome = ForkPoint | { readonly kind: Misplaced | "sub-offset" | "too-deep" };

export async function findForkPoint(
  engine: Engine,
  project: string,
  source: { readonly path: string; readonly meta: Meta; readonly head: Head },
  offset: Position | undefined,
  subOffset: number,
  { forkDepth: maxDepth, pageBytes }: Pick<StreamLimits, "forkDepth" | "pageBytes">,
): Promise<ForkPointOutcome> {
  const { meta, head, path } = source;
  let through = offset ?? head.last;
  // A fork from the beginning inherits nothing, so nothing can be missing. The tail needs no look: `Forks` starts again if
  // the source has another history by the time that it stores the fork.
  const isSure = through.seq === 0 || comparePositions(through, head.last) === 0;
  const misplaced = isSure ? undefined : await misplacement(engine, project, path, through);
  if (misplaced !== undefined) return { kind: misplaced };
  let prefix: readonly Uint8Array[] = [];
  if (subOffset > 0) {
    const found = await within(engine, project, path, meta, through, subOffset, pageBytes);
    if (found === undefined) return { kind: "sub-offset" };
    ({ through, prefix } = found);
  }
  const lineage = lineageOf(path, meta, through);
  // Each level costs a reader of old messages one more load.
  return lineage.length > maxDepth ? { kind: "too-deep" } : { kind: "point", lineage, prefix };
}

/**
 * Why no fork can begin at this position; undefined if one can. The message after it tells, there already or to come:
 * numbers continue across generations, so after a position of this stream comes the next number.
 */
async function misplacement(
  engine: Engine,
  project: string,
  path: string,
  position: Position,
): Promise<Misplaced | undefined> {
  const read = await readPage(engine, project, path, position, 1);
  if (read.kind === "ahead" || read.kind === "trimmed") return read.kind;
  if (read.kind !== "page") return "unknown";
  const { last } = read.head;
  const [following] = read.messages;
  if (following === undefined && comparePositions(position, last) > 0) return "ahead";
  const nextSeq = following?.position.seq ?? last.seq + 1;
  return nextSeq === position.seq + 1 ? undefined : "unknown";
}

/** The ancestors that the fork reads up to `through`, each with its last position. */
function lineageOf(path: string, meta: Meta, through: Position): readonly Ancestor[] {
  const inherited = meta.origin?.lineage ?? [];
  const needed: Ancestor[] = [];
  for (const ancestor of inherited) {
    if (comparePositions(through, ancestor.through) <= 0) return [...needed, { path: ancestor.path, through }];
    needed.push(ancestor);
  }
  return [...needed, { path, through }];
}

/** JSON: `count` messages further on. Otherwise: the first `count` bytes of the next message. */
async function within(
  engine: Engine,
  project: string,
  path: string,
  meta: Meta,
  after: Position,
  count: number,
  pageBytes: number,
): Promise<{ through: Position; prefix: readonly Uint8Array[] } | undefined> {
  let through = after;
  let left = count;
  while (left > 0) {
    const page = await readPage(engine, project, path, through, pageBytes);
    if (page.kind !== "page" || page.messages.length === 0) return undefined;
    if (!isJson(meta.config.contentType)) {
      const { payload } = page.messages[0]!;
      return left > payload.length ? undefined : { through, prefix: [payload.slice(0, left)] };
    }
    const taken = Math.min(left, page.messages.length);
    through = page.messages[taken - 1]!.position;
    left -= taken;
  }
  return { through, prefix: [] };
}
