/** What a client is told of a fault, over a socket. Features that answer frames use it. */
import { Refusal } from "../core/refusal.ts";
import { EngineError } from "./contract.ts";

export interface Problem {
  readonly code: string;
  readonly detail: string;
}

/** `report` gets a fault that neither the feature nor the store refused with, whose details no client sees. */
export function problemOf(fault: unknown, report: (fault: unknown) => void): Problem {
  if (fault instanceof Refusal || fault instanceof EngineError) return { code: fault.code, detail: fault.message };
  report(fault);
  return { code: "internal", detail: "something went wrong in the server; its log has the cause" };
}
