/** An EngineError on its way between the threads of the disk engine, where only plain data passes. */
import { EngineError } from "../contract.ts";

export type SentError = Pick<EngineError, "code" | "message" | "explanation">;

export function toSend({ code, message, explanation }: EngineError): SentError {
  return { code, message, explanation };
}

export function toEngineError({ code, message, explanation }: SentError): EngineError {
  return new EngineError(code, message, explanation);
}
