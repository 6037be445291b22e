/**
 * Checks whether the masters are fit as a store. `open.ts` calls it once. A setting that is certain to lose data ends the start;
 * one that may lose data is a warning to the operator.
 *
 * Invariants: it only judges the given text; it changes no setting of Redis.
 */
import { EngineError } from "../contract.ts";

/** Takes a master's INFO. Throws if its settings discard data; returns warnings for the operator. */
export function warningsAbout(name: string, info: string, waitReplicas: number): string[] {
  const value = (field: string) => new RegExp(`^${field}:(\\S*)`, "m").exec(info)?.[1];
  const policy = value("maxmemory_policy");
  if (Number(value("maxmemory")) > 0 && policy !== "noeviction") {
    throw new EngineError(
      "storage-failed",
      `${name} evicts data when its memory is full (maxmemory-policy ${policy}); Sluice needs noeviction`,
    );
  }
  const found: string[] = [];
  if (value("aof_enabled") === "0") {
    found.push(
      `${name} keeps no append-only file: its restart loses the writes that its replicas lack; set appendonly yes`,
    );
  }
  const replicas = Number(value("connected_slaves"));
  if (replicas < waitReplicas) {
    found.push(
      `${name} has ${replicas} of the ${waitReplicas} replicas that commits wait for: reads and writes on it are refused until they connect`,
    );
  }
  return found;
}
