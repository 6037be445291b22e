/** The person in this tab. A tab keeps its person over reloads; the next tab of the browser is another one. */
import { type Person, TONES } from "./person.ts";

const NAMES = ["Ada", "Bob", "Cleo", "Dara", "Eli", "Fay", "Gus", "Hana", "Ivo", "June", "Kai", "Lou", "Mia", "Noor"];

export function thisPerson(): Person {
  const known = sessionStorage.getItem("person");
  if (known !== null) return JSON.parse(known) as Person;
  const number = Number(localStorage.getItem("people") ?? Math.floor(Math.random() * NAMES.length));
  localStorage.setItem("people", String(number + 1));
  const person = { id: crypto.randomUUID(), name: NAMES[number % NAMES.length]!, tone: number % TONES };
  sessionStorage.setItem("person", JSON.stringify(person));
  return person;
}
