/**
 * The two metas of the store, of which the newer one tells where everything is. LMDB writes them in turn and starts from the one
 * with the higher transaction; damage there could silently lead it back to an older state.
 *
 * Invariants: the newest is named only if both are believable. Every transaction of ours rewrites the root of the
 * rows, and the root carries the transaction that wrote it, so a meta proves its own number. The snapshot before the newest
 * stays whole until the next transaction is done, so the other meta can prove itself too.
 */
import { EngineError } from "../../contract.ts";
import {
  HEADER_BYTES,
  MAGIC,
  META,
  META_BYTES,
  type Meta,
  NO_PAGE,
  PAGE_BYTES,
  readMetaPage,
  u64,
  VERSION,
} from "./layout.ts";
import type { PageFile } from "./page-file.ts";

/** Pages that a transaction may have taken and given back without ever writing them. */
const MAX_UNWRITTEN_PAGES = 2 ** 18;

export interface NewestMeta extends Meta {
  /** Which page it stands on. */
  readonly page: number;
}

export async function newestMeta(file: PageFile): Promise<NewestMeta> {
  if (file.pages < 2)
    throw file.damage({ page: file.pages, at: 0 }, "the file ends before its first two pages are whole");
  const pages = await file.readAll([0, 1]);
  const metas = pages.map((page) => readMetaPage(page)) as [Meta, Meta];
  checkVersion(file.path, metas);
  for (const [i, meta] of metas.entries()) {
    const wrong = faultOf(meta, i) ?? difference(metas[0], meta);
    if (wrong !== undefined) throw damage(file, i, wrong);
  }
  const [even, odd] = metas;
  const page = odd.txn > even.txn ? 1 : 0;
  // A new file has two metas without a transaction.
  if (Math.abs(odd.txn - even.txn) !== 1 && odd.txn + even.txn !== 0)
    throw damage(file, page, `the transactions of the metas, ${even.txn} and ${odd.txn}, do not follow each other`);
  for (const [i, meta] of metas.entries()) await checkRoot(file, meta, i);
  const newest = metas[page]!;
  file.expect(newest.lastPage);
  return { ...newest, page };
}

/** One meta of another version is damage; two that agree were written by another version of LMDB. */
function checkVersion(path: string, [even, odd]: readonly [Meta, Meta]): void {
  if (even.version !== odd.version || even.version === VERSION || even.magic !== MAGIC || odd.magic !== MAGIC) return;
  throw new EngineError(
    "storage-failed",
    `The store ${path} has pages of LMDB's layout ${even.version}; this program knows layout ${VERSION}. Start it with the version of Sluice that wrote it.`,
  );
}

async function checkRoot(file: PageFile, { rows, txn, lastPage }: Meta, page: number): Promise<void> {
  if (lastPage >= file.pages + MAX_UNWRITTEN_PAGES) throw damage(file, page, `page ${lastPage} is said to be the last`);
  if (txn === 0) return;
  if (!(rows.root >= 2 && rows.root <= lastPage && rows.root < file.pages))
    throw damage(file, page, `it names page ${rows.root} as the root, which is not in the file`);
  const root = await file.read(rows.root);
  if (u64(root, 0) !== rows.root || u64(root, 8) !== txn)
    throw damage(file, page, `its transaction ${txn} did not write its root, page ${rows.root}`);
}

function damage(file: PageFile, page: number, what: string): Error {
  return file.damage({ page, at: HEADER_BYTES }, `the meta, ${META_BYTES} bytes long: ${what}`);
}

function faultOf(meta: Meta, page: number): string | undefined {
  if (meta.number !== page || meta.kind !== META) return "it is not on a page for it";
  if (meta.magic !== MAGIC) return "it is not one of LMDB";
  if (meta.version !== VERSION) return `it has version ${meta.version}, and not ${VERSION}`;
  if (meta.free.pageBytes !== PAGE_BYTES) return `pages are said to have ${meta.free.pageBytes} bytes`;
  if (meta.address !== 0 || meta.rows.pageBytes !== 0 || meta.rows.flags !== 0)
    return "it holds what was never written";
  if (meta.txn === 0 && (meta.rows.root !== NO_PAGE || meta.free.root !== NO_PAGE))
    return "it has rows, but no transaction";
  if (meta.txn > 0 && meta.txn % 2 !== page) return `transaction ${meta.txn} is on the other page`;
  return undefined;
}

/** What never changes in the life of a file stands in both. */
function difference(one: Meta, other: Meta): string | undefined {
  return one.free.flags === other.free.flags ? undefined : "the flags of the metas differ";
}
