/** The code of the refusal that a call ends with, for tests that call services and identities without a door. */
import { Refusal } from "../../packages/server/src/core/refusal.ts";

/** "taken" when the call is not refused. A fault that is no refusal is thrown on. */
export async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call();
    return "taken";
  } catch (fault) {
    if (fault instanceof Refusal) return fault.code;
    throw fault;
  }
}
