/**
 * How a command ends: the exit codes, the error that carries one, and the signals that end a command well. Every
 * command throws the error; `main` turns it into an exit.
 */

export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  denied: 4,
  conflict: 5,
  unavailable: 6,
} as const;

export const EXIT_MEANINGS: Readonly<Record<number, string>> = {
  [EXIT.ok]: "it worked; for tail, consume and pull, also when you end it",
  [EXIT.failure]: "it failed, or the server refused the request as malformed",
  [EXIT.usage]: "the command line or the configuration is wrong; nothing was done",
  [EXIT.notFound]: "there is no such stream, channel, session, group, subscription or directory; or it was removed",
  [EXIT.denied]: "the token is missing, not valid, or does not allow this",
  [EXIT.conflict]:
    "a conflict: the stream exists, is closed or has another type; the channel has ended; a server uses the data directory",
  [EXIT.unavailable]: "the server cannot be reached or cannot answer now; trying again may help",
};

/** One line for the user, and the code for scripts; with code 0 no line. */
export class CliError extends Error {
  constructor(
    readonly exitCode: number,
    message: string,
  ) {
    super(message);
    this.name = "CliError";
  }
}

export function usage(message: string): CliError {
  return new CliError(EXIT.usage, message);
}

export function exitCodeOf(status: number): number {
  if (status === 401 || status === 403) return EXIT.denied;
  if (status === 404 || status === 410) return EXIT.notFound;
  if (status === 409 || status === 412) return EXIT.conflict;
  if (status === 429 || status === 503) return EXIT.unavailable;
  return EXIT.failure;
}

/** Aborts at Ctrl-C or SIGTERM, which end a command that follows a log, and are not a failure. */
export function endSignal(): AbortSignal {
  const ending = new AbortController();
  const end = () => ending.abort(new CliError(EXIT.ok, "ended by its user"));
  process.once("SIGINT", end);
  process.once("SIGTERM", end);
  return ending.signal;
}
