/** What a key of the store stands for, in words for whoever is told that it is damaged. */
import { headKey, keyKind, logFirstSeq, logGeneration, numberOf, rowNameOf } from "../keys.ts";

/** `nameOf` gives the name of the entity with this head, or undefined where that is not known. */
export async function describeKey(
  key: Buffer,
  nameOf: (headKey: Buffer) => Promise<string | undefined>,
): Promise<string> {
  const kind = keyKind(key);
  if (kind === "meta") return "the row about the store itself";
  if (kind === "directory") return `the directory entry of ${key.toString("utf8", 1).replaceAll("\0", "/")}`;
  if (kind === "unknown" || key.length < 9) return "a row of an unknown kind";
  const number = numberOf(key);
  const name = (kind === "head" ? undefined : await nameOf(headKey(number))) ?? `entity ${number}`;
  switch (kind) {
    case "head":
      return `the head of ${name}`;
    case "row":
      return `row ${rowNameOf(key)} of ${name}`;
    case "log":
      return `messages from ${logGeneration(key)}_${logFirstSeq(key)} on of ${name}`;
    case "reminder":
      return `a reminder of ${name}`;
    case "garbage":
      return `a note of what is to be deleted of ${name}`;
  }
}
