/** The id of a session as the user types it. Every `session` command uses it. */
import { usage } from "../exit.ts";

export const SESSION_ARGUMENT = "the id of the session, a UUID";

/** In the server's spelling. */
export function sessionIdOf(text: string): string {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text.toLowerCase();
  throw usage(
    `the id of a session is a UUID, like the one that \`sluice session subscribe\` prints, not ${quoted(text)}`,
  );
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 50 ? `${text.slice(0, 50)}…` : text);
}
