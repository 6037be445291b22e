/** Finds the kind of every page of an undamaged store with the verifier's own code, so that a test can damage each kind. */
import type { Files } from "../../packages/server/src/engine/disk/files.ts";
import {
  BRANCH,
  LEAF,
  OVERFLOW,
  PAGE_BYTES,
  type TreeRecord,
  u16,
  u64,
} from "../../packages/server/src/engine/disk/verify/layout.ts";
import { newestMeta } from "../../packages/server/src/engine/disk/verify/metas.ts";
import { PageFile } from "../../packages/server/src/engine/disk/verify/page-file.ts";

export interface PageMap {
  readonly branches: readonly number[];
  readonly leaves: readonly number[];
  readonly overflows: readonly number[];
  readonly freeList: readonly number[];
  readonly free: readonly number[];
  readonly lastUsed: number;
  /** Every byte of these tree pages except the room between the places and the nodes. */
  bytesOf(pages: readonly number[]): number[];
  /** The place of a text in a page in use; free pages hold old copies. */
  placeOf(store: Buffer, text: string): number;
}

export async function pageMap(files: Files, path: string): Promise<PageMap> {
  const file = await files.open(path, "read");
  const size = await file.size();
  const pages = new PageFile(path, file, size);
  const { rows, free } = await newestMeta(pages);
  const store = await pages.read(0, pages.pages);
  await file.close();
  const found = { [BRANCH]: [] as number[], [LEAF]: [] as number[], [OVERFLOW]: [] as number[] };
  const at = (page: number): Buffer => store.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
  collect(at, rows, found);
  const ofFree = { [BRANCH]: [] as number[], [LEAF]: [] as number[], [OVERFLOW]: [] as number[] };
  collect(at, free, ofFree);
  const freeList = Object.values(ofFree).flat();
  const used = new Set([0, 1, ...Object.values(found).flat(), ...freeList]);
  return {
    branches: found[BRANCH],
    leaves: found[LEAF],
    overflows: found[OVERFLOW],
    freeList,
    free: Array.from({ length: pages.pages }, (_, page) => page).filter((page) => !used.has(page)),
    lastUsed: Math.max(...used),
    bytesOf: (numbers) => numbers.flatMap((page) => usedBytes(at(page)).map((byte) => page * PAGE_BYTES + byte)),
    placeOf(bytes, text) {
      for (let place = bytes.indexOf(text); place !== -1; place = bytes.indexOf(text, place + 1)) {
        if (used.has(Math.floor(place / PAGE_BYTES))) return place + 4;
      }
      throw new Error(`${text} is not in the store`);
    },
  };
}

function usedBytes(page: Buffer): number[] {
  const room = { from: 24 + u16(page, 20), to: 24 + u16(page, 22) };
  return Array.from({ length: PAGE_BYTES }, (_, i) => i).filter((i) => i < room.from || i >= room.to);
}

type Found = Record<number, number[]>;

function collect(at: (page: number) => Buffer, { root }: TreeRecord, found: Found): void {
  if (!Number.isFinite(root)) return;
  const page = at(root);
  const kind = u16(page, 18);
  found[kind]!.push(root);
  for (let i = 0; i < u16(page, 20) / 2; i++) {
    const node = u16(page, 24 + 2 * i) + 24;
    if (kind === BRANCH) collect(at, { root: page.readUInt32LE(node) } as TreeRecord, found);
    else if (u16(page, node + 4) === 1) {
      const value = node + 8 + u16(page, node + 6);
      for (let k = 0; k < u64(page, value + 16); k++) found[OVERFLOW]!.push(u64(page, value) + k);
    }
  }
}
