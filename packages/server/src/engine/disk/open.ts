/**
 * Opens a data directory: lock, format, store, journal, a fresh segment, then the engine. `compose` calls `openDisk`; a
 * simulation calls `openParts` with its own parts.
 *
 *   <dir>/format               one line: the kind and version of this directory
 *   <dir>/lock.sock            held by the process that owns the directory (lock.ts)
 *   <dir>/journal/<n>.seg      segments of the journal (frame.ts)
 *   <dir>/store.mdb, -lock     LMDB (keys.ts)
 *   <dir>/damage               the damage that the background check found, if any
 *
 * The design is a journal in front and LMDB behind. All waiting commits are one batch: one write at the end of a preallocated
 * segment, flushed when it returns (`O_DSYNC` on Linux, a separate flush elsewhere). Checksums are chained and salted per
 * segment, so recovery tells a torn tail from damage. A worker thread of low priority applies the journal to LMDB, where
 * consecutive messages of a stream share one value of up to one page. A segment is recycled once LMDB has flushed everything in
 * it. Reads come from the overlay (commits that LMDB lacks), then the tail cache and what was read lately, then LMDB. A start
 * reads the commits that LMDB lacks into the overlay, so it writes nothing into LMDB but its own boot number.
 * `verify/verify-store.ts` explains how damage in LMDB's file is detected.
 *
 * Invariants: nothing is written before the lock is held, and nothing is replayed onto a directory of another format. Damage is
 * refused with its place; opening never repairs by dropping data.
 */
import type { World } from "../../core/world.ts";
import { type Engine, EngineError } from "../contract.ts";
import type { ApplyRunner } from "./apply-runner.ts";
import { ApplyThread, type WorkerPlace } from "./apply-thread.ts";
import type { CheckRunner } from "./check-runner.ts";
import { type CheckPlace, CheckThread } from "./check-thread.ts";
import { type ApplyLimits, DEFAULT_LIMITS, type Limits } from "./defaults.ts";
import { DescriptorReserve } from "./descriptor-reserve.ts";
import { DiskEngine } from "./engine.ts";
import { type Files, type Release, readWhole, writeWhole } from "./files.ts";
import { FORMAT_TEXT, judgeFormat } from "./format.ts";
import { type Meta, readMeta, writeMeta } from "./meta.ts";
import { filesWith } from "./node-files.ts";
import { openVerified, type StorePlace } from "./open-store.ts";
import { type Recovered, recover } from "./recovery.ts";
import { flushLast } from "./restore.ts";
import { Segments, segmentNumbers } from "./segments.ts";
import type { Store } from "./store.ts";
import { faultCode, isFull } from "./system-fault.ts";

export interface DiskOptions {
  readonly dir: string;
  readonly world: World;
  readonly limits?: Partial<Limits>;
  /** Receives warnings for the operator. */
  readonly warn?: ((what: string, details: object) => void) | undefined;
  readonly info?: ((what: string, details: object) => void) | undefined;
}

/** The outside of the engine: real in a server, simulated in tests. */
export interface DiskPorts {
  readonly files: Files;
  openStore(place: StorePlace): Store | Promise<Store>;
  startApply(place: WorkerPlace, store: Store): ApplyRunner;
  /** Runs the background check of an earlier process's store; a simulated store needs none. */
  startCheck?(place: CheckPlace): CheckRunner;
}

/** The parts of the engine, once the directory is open. */
export interface DiskParts {
  readonly world: World;
  readonly limits: Limits;
  readonly store: Store;
  readonly segments: Segments;
  readonly runner: ApplyRunner;
  readonly checkRunner: CheckRunner | undefined;
  readonly meta: Meta;
  /** Records damage for the next start. */
  noteDamage(error: EngineError): Promise<void>;
  warn(what: string, details: object): void;
  info(what: string, details: object): void;
  readonly unlock: Release;
}

/** The journal has its segment, prepares the next one through two more files, and flushes their directory. */
const DESCRIPTORS_KEPT = 4;

export function openDisk(options: DiskOptions): Promise<Engine> {
  const files = filesWith(new DescriptorReserve(DESCRIPTORS_KEPT));
  return openWith(options, {
    files,
    openStore: (place) => openVerified(files, place),
    startApply: (place) => new ApplyThread(place),
    startCheck: (place) => new CheckThread(place),
  });
}

export async function openWith(options: DiskOptions, ports: DiskPorts): Promise<DiskEngine> {
  const { dir } = options;
  const { files } = ports;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  try {
    await files.makeDir(dir);
    const unlock = await files.lock(dir, limits.lockMs);
    try {
      await checkFormat(files, dir);
      return await openLocked(options, limits, ports, unlock);
    } catch (fault) {
      await unlock();
      throw fault;
    }
  } catch (fault) {
    throw explain(fault, dir);
  }
}

async function openLocked(
  { dir, world, warn = ignore, info = ignore }: DiskOptions,
  limits: Limits,
  ports: DiskPorts,
  unlock: Release,
): Promise<DiskEngine> {
  const { files } = ports;
  const journalDir = `${dir}/journal`;
  const storePath = `${dir}/store.mdb`;
  await files.makeDir(journalDir);
  const wasUsed = (await segmentNumbers(files, journalDir)).length > 0;
  const wasDamaged = (await files.names(dir)).includes(DAMAGE);
  const store = await ports.openStore({ path: storePath, wasUsed, wasDamaged, startBytes: limits.startBytes });
  try {
    if (wasDamaged) await files.remove(`${dir}/${DAMAGE}`);
    // The names of journal and store must be durable before any commit rests on them.
    await files.syncDir(dir);
    const { segments, owed, torn } = await readJournal(files, journalDir, world, limits, store);
    if (torn !== undefined) warn(TORN, { segment: torn.path, at: torn.from, bytes: torn.to - torn.from });
    const meta = countBoot(store);
    store.refresh();
    const proven = store.unchecked?.proven;
    const runner = ports.startApply({ journalDir, storePath, limits: applyLimits(limits), proven }, store);
    const checkRunner = ports.startCheck?.({ path: storePath, nice: limits.applyNice });
    const noteDamage = ({ explanation }: EngineError) =>
      writeWhole(files, dir, DAMAGE, Buffer.from(`${explanation}\n`));
    const parts = { world, limits, store, segments, runner, checkRunner, meta, noteDamage, warn, info, unlock };
    const engine = new DiskEngine(parts, owed);
    await engine.start();
    return engine;
  } catch (fault) {
    await store.close();
    throw fault;
  }
}

const ignore = (): void => undefined;

/**
 * The file with the damage found while the directory was in use. If it exists, the next start reads all of the store before it
 * opens it.
 */
const DAMAGE = "damage";

const TORN =
  "the journal ends in a torn frame, which was passed over: a crash cut an unacknowledged write short, or the disk lost the last frame; check the disk if this host did not crash";

interface OldJournal extends Pick<Recovered, "owed" | "torn"> {
  readonly segments: Segments;
}

/** Finds what the store lacks. Files that the store has all of become spares, oldest first. */
async function readJournal(files: Files, dir: string, world: World, limits: Limits, store: Store): Promise<OldJournal> {
  await files.remove(`${dir}/next.tmp`).catch(() => undefined);
  const { old, owed, neededFrom, torn } = await recover(files, dir, readMeta(store).appliedThrough);
  await flushLast(files, dir, owed);
  const segments = new Segments(files, dir, world, limits, (old.at(-1)?.number ?? 0) + 1);
  for (const { number, size } of old) segments.adopt(number, size);
  segments.retire(neededFrom);
  return { segments, owed, torn };
}

/** Only these limits are sent to the thread. */
function applyLimits({ transactionBytes, garbageKeys, busyStreams, applyNice }: Limits): ApplyLimits {
  return { transactionBytes, garbageKeys, busyStreams, applyNice };
}

/** Gives every opening a number of its own, from which the claims of this process count. */
function countBoot(store: Store): Meta {
  const meta = readMeta(store);
  meta.boots++;
  store.transact((tx) => writeMeta(tx, meta));
  return meta;
}

async function checkFormat(files: Files, dir: string): Promise<void> {
  const names = await files.names(dir);
  if (!names.includes("format")) {
    if (names.includes("store.mdb"))
      throw new EngineError("data-damaged", `${dir}/format is missing, but there is data.`);
    await writeWhole(files, dir, "format", Buffer.from(FORMAT_TEXT));
    return;
  }
  judgeFormat(dir, (await readWhole(files, `${dir}/format`)).toString("latin1"));
}

function explain(fault: unknown, dir: string): Error {
  if (fault instanceof EngineError || !(fault instanceof Error) || faultCode(fault) === "") return fault as Error;
  if (isFull(fault)) return new EngineError("storage-full", `The disk of the data directory ${dir} is full.`);
  return new EngineError("storage-failed", `The data directory ${dir} cannot be opened: ${fault.message}.`);
}
