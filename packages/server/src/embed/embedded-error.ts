/** Refusals and faults as the one error class that programs see, in process as over HTTP. */
import { SluiceError } from "@sluice/client";
import { errors } from "@sluice/protocol";
import { Refusal } from "../core/refusal.ts";
import { EngineError } from "../engine/contract.ts";

export function asSluiceError(fault: unknown): unknown {
  if (fault instanceof Refusal || fault instanceof EngineError) {
    const { code, message } = fault;
    const { status, retryable } = errors[code];
    const retryAfterMs = fault instanceof Refusal ? fault.retryAfterMs : undefined;
    const offset = fault instanceof Refusal ? (fault.facts.earliestOffset ?? fault.facts.nextOffset) : undefined;
    return new SluiceError(code, message, {
      status,
      retryable,
      retryAfterMs,
      offset: offset?.toString(),
      cause: fault,
    });
  }
  return fault;
}
