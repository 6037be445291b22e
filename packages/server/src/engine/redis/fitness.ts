/**
 * Whether the masters are what a store must be. Asked once, at opening: what would lose data for sure ends the start, what may is
 * told to the operator.
 */
import { EngineError } from "../contract.ts";

/** Takes what a master says of itself. Throws when data would be thrown away; returns what the operator should know. */
export function worriesAbout(name: string, info: string, waitReplicas: number): string[] {
  const value = (field: string) => new RegExp(`^${field}:(\\S*)`, "m").exec(info)?.[1];
  const policy = value("maxmemory_policy");
  if (Number(value("maxmemory")) > 0 && policy !== "noeviction") {
    throw new EngineError(
      "storage-failed",
      `${name} throws data away when its memory is full (maxmemory-policy ${policy}); Sluice needs noeviction`,
    );
  }
  const found: string[] = [];
  if (value("aof_enabled") === "0") {
    found.push(
      `${name} keeps no append-only file: a restart of it loses what its replicas do not have (appendonly yes)`,
    );
  }
  const replicas = Number(value("connected_slaves"));
  if (replicas < waitReplicas) {
    found.push(
      `${name} has ${replicas} of the ${waitReplicas} replicas that are waited for: it will refuse reads and writes`,
    );
  }
  return found;
}
