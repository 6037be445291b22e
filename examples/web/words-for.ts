/** What a page says about an error. Browsers describe a server that does not answer in words of their own, like "Failed to fetch". */
export function wordsFor(error: unknown): string {
  if (error instanceof TypeError) return "The example's server does not answer. Is it still running?";
  return error instanceof Error ? error.message : String(error);
}
