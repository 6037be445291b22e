/** A person on a page, as messages and states name it: the others see the name and the color. */
export interface Person {
  /** Tells people of one name apart. */
  readonly id: string;
  readonly name: string;
  /** From 0 to 7; live.css has a color for each. */
  readonly tone: number;
}

export const TONES = 8;
const MAX_NAME = 40;

/** The person that a stranger's message or state names; other programs may write to the same stream. */
export function personIn(value: unknown): Person {
  const { id, name, tone } = (value ?? {}) as Partial<Person>;
  return {
    id: typeof id === "string" ? id : "",
    name: typeof name === "string" && name !== "" ? name.slice(0, MAX_NAME) : "A guest",
    tone: Number.isInteger(tone) ? Math.abs(tone!) % TONES : 0,
  };
}
