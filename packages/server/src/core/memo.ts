/** Remembers what was computed: for an object as long as that object lives, and for texts that came lately. */

/**
 * `compute`, once per object that `keyOf` names; each time where it names none. A failure is not remembered. For results that follow
 * from that object alone, and that cost more than finding them again.
 */
export function memo<A, V extends object | boolean>(
  keyOf: (input: A) => object | undefined,
  compute: (input: A) => V,
): (input: A) => V {
  const known = new WeakMap<object, V>();
  return (input) => {
    const key = keyOf(input);
    if (key === undefined) return compute(input);
    let value = known.get(key);
    if (value === undefined) {
      value = compute(input);
      known.set(key, value);
    }
    return value;
  };
}

/** Texts that are remembered, and the longest of them. */
const MOST_TEXTS = 1_000;
const LONGEST_TEXT = 256;

/**
 * `compute`, once for each of the texts that came lately. A failure is not remembered. For results that follow from the text alone,
 * and that cost more than finding them again.
 */
export function memoOfTexts<V extends object>(compute: (text: string) => V): (text: string) => V {
  const known = new Map<string, V>();
  return (text) => {
    const before = known.get(text);
    if (before !== undefined) return before;
    const value = compute(text);
    if (text.length > LONGEST_TEXT) return value;
    // To begin anew costs less than to know which text came longest ago.
    if (known.size >= MOST_TEXTS) known.clear();
    known.set(text, value);
    return value;
  };
}

/** As `memoOfTexts`, for what follows from a project and a name in it. Of projects with the same name, the last one is known. */
export function memoOfNames<V extends { readonly project: string }>(
  compute: (project: string, name: string) => V,
): (project: string, name: string) => V {
  const known = new Map<string, V>();
  return (project, name) => {
    const before = known.get(name);
    if (before !== undefined && before.project === project) return before;
    const value = compute(project, name);
    if (name.length > LONGEST_TEXT) return value;
    if (known.size >= MOST_TEXTS) known.clear();
    known.set(name, value);
    return value;
  };
}
