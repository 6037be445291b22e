/**
 * The payloads of a publish as the client wrote them, so that no number loses a digit. Called by parse.ts.
 *
 * Invariants: the input is text that JSON.parse accepted, and the result agrees with it: of two members with one name
 * the last counts. Nesting of any depth uses no stack.
 */

const SPACE = /[ \t\n\r]*/y;
/** A number or a word. */
const SCALAR = /[^\s,\]}]*/y;
/** The characters that matter while a value is skipped. */
const STRUCTURE = /["[\]{}]/g;

/** On one line; null if there is none. `text` is an object. */
export function rawPayload(text: string): string {
  return memberOf(text, "payload")?.replace(/[\r\n]+/g, " ") ?? "null";
}

/** The elements of `messages`, each as text. */
export function rawMessages(text: string): string[] {
  const array = memberOf(text, "messages")!;
  const found: string[] = [];
  for (let at = after(SPACE, array, 1); array[at] !== "]"; ) {
    const end = endOfValue(array, at);
    found.push(array.slice(at, end));
    at = after(SPACE, array, end);
    if (array[at] === ",") at = after(SPACE, array, at + 1);
  }
  return found;
}

function memberOf(object: string, wanted: string): string | undefined {
  let value: string | undefined;
  let at = after(SPACE, object, object.indexOf("{") + 1);
  while (object[at] !== "}") {
    const keyEnd = endOfString(object, at);
    const key = JSON.parse(object.slice(at, keyEnd)) as string;
    const from = after(SPACE, object, object.indexOf(":", keyEnd) + 1);
    const to = endOfValue(object, from);
    if (key === wanted) value = object.slice(from, to);
    at = after(SPACE, object, to);
    if (object[at] === ",") at = after(SPACE, object, at + 1);
  }
  return value;
}

function endOfValue(text: string, from: number): number {
  const first = text[from];
  if (first === '"') return endOfString(text, from);
  if (first !== "{" && first !== "[") return after(SCALAR, text, from);
  let depth = 0;
  STRUCTURE.lastIndex = from;
  for (;;) {
    const { 0: char, index } = STRUCTURE.exec(text)!;
    if (char === '"') STRUCTURE.lastIndex = endOfString(text, index);
    else if (char === "{" || char === "[") depth++;
    else if (--depth === 0) return index + 1;
  }
}

/** A loop instead of a pattern, because a pattern would overflow the stack on a long string. */
function endOfString(text: string, open: number): number {
  let at = open + 1;
  while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** The index after the text that the pattern matches at this place. */
function after(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  if (!pattern.test(text)) throw new Error("text that JSON.parse accepted is not JSON");
  return pattern.lastIndex;
}
