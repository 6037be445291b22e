/**
 * The person in this tab: a name and a color, which the others see. A tab keeps its person over reloads; the next tab of the
 * browser is another one.
 */
export interface Person {
  /** Tells people of one name apart. */
  readonly id: string;
  readonly name: string;
  /** From 0 to 7; live.css has a color for each. */
  readonly tone: number;
}

const NAMES = ["Ada", "Bob", "Cleo", "Dara", "Eli", "Fay", "Gus", "Hana", "Ivo", "June", "Kai", "Lou", "Mia", "Noor"];
const TONES = 8;
const MAX_NAME = 40;

export function thisPerson(): Person {
  const known = sessionStorage.getItem("person");
  if (known !== null) return JSON.parse(known) as Person;
  const number = Number(localStorage.getItem("people") ?? Math.floor(Math.random() * NAMES.length));
  localStorage.setItem("people", String(number + 1));
  const person = { id: crypto.randomUUID(), name: NAMES[number % NAMES.length]!, tone: number % TONES };
  sessionStorage.setItem("person", JSON.stringify(person));
  return person;
}

/** The person that a stranger's message or state names; other programs may write to the same stream. */
export function personIn(value: unknown): Person {
  const { id, name, tone } = (value ?? {}) as Partial<Person>;
  return {
    id: typeof id === "string" ? id : "",
    name: typeof name === "string" && name !== "" ? name.slice(0, MAX_NAME) : "A guest",
    tone: Number.isInteger(tone) ? Math.abs(tone!) % TONES : 0,
  };
}
