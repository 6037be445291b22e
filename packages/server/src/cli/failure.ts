/**
 * Turns a failure of the client into one line and an exit code. Called by `main`, and by commands that add to the line.
 */
import { SluiceError } from "@sluice/client";
import { PubSubError } from "@sluice/client/pubsub";
import { type ErrorCode, errors, header } from "@sluice/protocol";
import { CliError, EXIT, exitCodeOf } from "./exit.ts";
import { harmless } from "./terminal.ts";

/** Faults that the client or a command has thrown on purpose. */
type Failure = CliError | SluiceError | PubSubError;

/** Undefined for any other fault. */
export function explained(fault: unknown): CliError | undefined {
  const isFailure = fault instanceof CliError || fault instanceof SluiceError || fault instanceof PubSubError;
  return isFailure ? failureOf(fault) : undefined;
}

export function failureOf(fault: Failure): CliError {
  if (fault instanceof CliError) return fault;
  if (fault instanceof PubSubError) return failureOfPull(fault);
  // The cause carries the reason in the words of the command line.
  if (fault.cause instanceof CliError) return fault.cause;
  const { status, code, message, headers } = fault;
  if (status === undefined) return new CliError(exitCodeWithoutAnswer(fault), harmless(message));
  const isExplained = code !== `http-${status}`;
  let said = isExplained ? `${message} (${status} ${code})` : `${message} without a reason; is --url that of Sluice?`;
  const earliest = headers?.get(header.streamEarliestOffset);
  if (earliest) said += `; ${earliestText(earliest)}`;
  if (status === 401) said += "; give a token with --token, SLUICE_TOKEN or a context";
  return new CliError(exitCodeOf(status), harmless(said));
}

/** The same failure with more text; any other fault unchanged. */
export function failureWith(fault: unknown, more: string): unknown {
  const failure = explained(fault);
  return failure === undefined ? fault : new CliError(failure.exitCode, `${failure.message}; ${more}`);
}

const BY_CODE: Readonly<Record<number, number>> = {
  5: EXIT.notFound,
  6: EXIT.conflict,
  7: EXIT.denied,
  9: EXIT.conflict,
  14: EXIT.unavailable,
  16: EXIT.denied,
};

function failureOfPull({ code, message, cause }: PubSubError): CliError {
  if (cause instanceof SluiceError) return failureOf(cause);
  return new CliError(BY_CODE[code] ?? EXIT.failure, harmless(message));
}

export function earliestText(offset: string): string {
  return `the earliest message kept comes after ${offset}, and --from beginning starts there`;
}

function exitCodeWithoutAnswer({ code, retryable }: SluiceError): number {
  if (retryable) return EXIT.unavailable;
  // A refusal over a WebSocket has a code and no status.
  return Object.hasOwn(errors, code) ? exitCodeOf(errors[code as ErrorCode].status) : EXIT.failure;
}
