/**
 * The free list of the store: a tree of its own whose keys are transactions and whose values are lists of pages. A damaged list
 * would let LMDB write over pages that are in use, so every page that it names is entered into the ledger.
 *
 *   value   0  u64  how many entries of the list count
 *           8  i64  entries: a page; or minus the length of a block, followed by its first page; or 0 for none
 */
import { HEADER_BYTES, type TreeRecord, u64 } from "./layout.ts";
import type { PageFile, Place } from "./page-file.ts";
import type { Entry, TreeKind } from "./tree-page.ts";
import { TreeWalk } from "./tree-walk.ts";

const FREE_LIST: TreeKind = {
  name: "the free list",
  minKey: 8,
  maxKey: 8,
  minChildren: 1,
  compare: (a, aFrom, _aLength, b, bFrom) => u64(a, aFrom) - u64(b, bFrom),
};

interface LargeList {
  readonly first: number;
  readonly pages: number;
  readonly bytes: number;
}

export async function verifyFreeList(file: PageFile, record: TreeRecord, txn: number, metaPage: number): Promise<void> {
  const large: LargeList[] = [];
  await new TreeWalk(file, FREE_LIST, record, true).run(txn, metaPage, (entry: Entry) => {
    const { bytes, page, keyAt, valueAt, valueLength, overflow, overflowPages } = entry;
    const freedBy = u64(bytes, keyAt);
    if (freedBy < 1 || freedBy > txn)
      throw file.damage({ page, at: keyAt }, "the free list has a key that is no transaction");
    if (overflow !== 0) large.push({ first: overflow, pages: overflowPages, bytes: valueLength });
    else enterList(file, bytes.subarray(valueAt, valueAt + valueLength), { page, at: valueAt });
  });
  for (const { first, pages, bytes } of large) {
    const whole = await file.read(first, pages);
    file.checkOverflow(whole, first, pages, txn);
    enterList(file, whole.subarray(HEADER_BYTES, HEADER_BYTES + bytes), { page: first, at: HEADER_BYTES });
  }
}

function enterList(file: PageFile, list: Buffer, { page, at }: Place): void {
  const count = list.length >= 8 && list.length % 8 === 0 ? u64(list, 0) : Number.POSITIVE_INFINITY;
  if ((count + 1) * 8 > list.length) throw file.damage({ page, at }, "the free list has a list longer than its value");
  for (let i = 1; i <= count; i++) {
    const place = { page, at: at + 8 * i };
    const length = blockLength(list, 8 * i);
    if (length === 0) {
      const single = u64(list, 8 * i);
      if (single !== 0) file.free(single, place);
      continue;
    }
    if (++i > count) throw file.damage(place, "the free list has a block without its first page");
    const first = u64(list, 8 * i);
    // The ledger refuses what is beyond its end, so that no length makes this loop long.
    for (let k = 0; k < length; k++) file.free(first + k, place);
  }
}

/** How long a block is told to begin at the next entry; 0 when this entry is none such. */
function blockLength(list: Buffer, at: number): number {
  const high = list.readInt32LE(at + 4);
  return high < 0 ? -(high * 2 ** 32 + list.readUInt32LE(at)) : 0;
}
