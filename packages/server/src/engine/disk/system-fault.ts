/**
 * What a fault of the operating system means for the engine: a full disk, a shortage that passes, or a failure. Every part of
 * the disk engine asks here.
 *
 * Invariants: a shortage of descriptors, memory or threads never stops the engine for good, because it ends without a restart.
 */
import { EngineError } from "../contract.ts";

const FULL: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "MDB_MAP_FULL"]);
/** A thread that cannot start lacks one of the other things. */
const SHORTAGES: ReadonlySet<string> = new Set(["EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ERR_WORKER_INIT_FAILED"]);
/** LMDB passes on the system's own text, without its code. */
const SHORTAGE_TEXT = /too many open files|cannot allocate memory|resource temporarily unavailable/i;

/** The operating system's code of a fault, or "" if it has none. */
export function faultCode(fault: unknown): string {
  const code = (fault as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : "";
}

/** Whether the fault is a lack of space. */
export function isFull(fault: unknown): boolean {
  return FULL.has(faultCode(fault));
}

/** Whether the process or the machine lacks descriptors, memory or threads for now. */
export function isShortage(fault: unknown): boolean {
  const code = faultCode(fault);
  return SHORTAGES.has(code) || (code === "" && SHORTAGE_TEXT.test(textOf(fault)));
}

/** Whether a later attempt may succeed without a restart. */
export function mayPass(fault: unknown): boolean {
  if (fault instanceof EngineError) return fault.code === "storage-full" || fault.code === "overloaded";
  return isFull(fault) || isShortage(fault);
}

/** The engine's error for a fault. `doing` is what failed, for clients; `place` is its path, for the operator. */
export function engineErrorOf(fault: unknown, doing: string, place: string): EngineError {
  if (fault instanceof EngineError) return fault;
  const own = `${place}: ${textOf(fault)}`;
  if (isFull(fault)) {
    return new EngineError("storage-full", `The disk is full${codeIn(fault)}.`, `The disk is full: ${own}.`);
  }
  if (!isShortage(fault)) return failureOf(fault, doing, place);
  const what = "The server is short of open files, memory or threads for now";
  return new EngineError("overloaded", `${what}${codeIn(fault)}; retry later.`, `${what}: ${own}.`);
}

/** The same where the engine stops, whatever the fault. */
export function failureOf(fault: unknown, doing: string, place: string): EngineError {
  if (fault instanceof EngineError) return fault;
  const what = `${doing} failed`;
  const restart = "Restart to try again.";
  const explanation = `${what}: ${place}: ${textOf(fault)}. ${restart}`;
  return new EngineError("storage-failed", `${what}${codeIn(fault)}. ${restart}`, explanation);
}

function codeIn(fault: unknown): string {
  const code = faultCode(fault);
  return code === "" ? "" : ` (${code})`;
}

const textOf = (fault: unknown): string => (fault instanceof Error ? fault.message : String(fault));
