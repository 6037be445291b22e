/**
 * The rooms, what a message of a room's stream is, and how the conversation began. The server and the page import it.
 *
 * Invariants: whatever else was appended to the stream is recognized and skipped, so that it harms no page.
 */
import { type Person, personIn } from "../web/person.ts";

export interface Said {
  readonly person: Person;
  /** Made by the page. A message that was sent twice has the same id. */
  readonly id: string;
  readonly text: string;
  /** Epoch milliseconds, by the clock of the writer. */
  readonly at: number;
}

export const ROOMS: readonly { readonly id: string; readonly about: string }[] = [
  { id: "general", about: "Everything that is not somewhere else" },
  { id: "design", about: "Icons, words and colors" },
  { id: "support", about: "Questions from customers" },
];

export const MAX_TEXT = 2_000;

export function streamOf(room: string): string {
  return `room/${room}`;
}

/** The message in a value; undefined if it is none. */
export function saidIn(value: unknown): Said | undefined {
  const { id, person, text, at } = (value ?? {}) as Partial<Said>;
  if (typeof id !== "string" || typeof text !== "string" || !Number.isSafeInteger(at)) return undefined;
  return { person: personIn(person), id, text: text.slice(0, MAX_TEXT), at: at! };
}

const OLGA: Person = { id: "olga", name: "Olga", tone: 4 };
const PIET: Person = { id: "piet", name: "Piet", tone: 3 };
const QUINN: Person = { id: "quinn", name: "Quinn", tone: 6 };

/** Room, person, text. */
const BEGINNING: readonly (readonly [string, Person, string])[] = [
  ["general", OLGA, "Good morning! The projector is back from repair."],
  ["general", PIET, "Finally. Who needs it today?"],
  ["general", OLGA, "We have it at two for the design review. Free before that."],
  ["general", PIET, "Then I take it until noon."],
  ["design", OLGA, "The new icons are in the shared folder."],
  ["design", QUINN, "The umbrella is lovely. Can the handle be a little longer?"],
  ["support", QUINN, "Two tickets came in overnight, both about invoices."],
];

const MINUTE_MS = 60_000;

/** What a room holds when it is made. */
export function beginningOf(room: string, now: number): Said[] {
  const said = BEGINNING.filter(([where]) => where === room);
  return said.map(([, person, text], i) => ({
    person,
    id: `${room}-${i}`,
    text,
    at: now - (said.length - i) * 3 * MINUTE_MS,
  }));
}
