/**
 * The person in this tab: a name and a color, which the others see. A tab keeps its person over reloads; the next tab of the
 * browser is another one.
 */
export interface Person {
  readonly name: string;
  /** From 0 to 7; look.css has a color for each. */
  readonly tone: number;
}

const NAMES = ["Ada", "Bob", "Cleo", "Dara", "Eli", "Fay", "Gus", "Hana", "Ivo", "June", "Kai", "Lou", "Mia", "Noor"];
const TONES = 8;

export function thisPerson(): Person {
  const known = sessionStorage.getItem("person");
  if (known !== null) return JSON.parse(known) as Person;
  const number = Number(localStorage.getItem("people") ?? Math.floor(Math.random() * NAMES.length));
  localStorage.setItem("people", String(number + 1));
  const person = { name: NAMES[number % NAMES.length]!, tone: number % TONES };
  sessionStorage.setItem("person", JSON.stringify(person));
  return person;
}

/** What a stranger's state says of its person; other pages may write to the same room. */
export function personIn(state: unknown): Person {
  const { name, tone } = (state ?? {}) as Partial<Person>;
  return {
    name: typeof name === "string" && name !== "" ? name.slice(0, 40) : "A guest",
    tone: Number.isInteger(tone) ? tone! % TONES : 0,
  };
}
