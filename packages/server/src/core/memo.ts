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

/** What is known of texts that came lately. */
class Lately<V> {
  private readonly known = new Map<string, V>();

  get(text: string): V | undefined {
    return this.known.get(text);
  }

  keep(text: string, value: V): V {
    if (text.length > LONGEST_TEXT) return value;
    // To begin anew costs less than to know which text came longest ago.
    if (this.known.size >= MOST_TEXTS) this.known.clear();
    this.known.set(text, value);
    return value;
  }
}

/**
 * `compute`, once for each of the texts that came lately. A failure is not remembered. For results that follow from the text alone,
 * and that cost more than finding them again.
 */
export function memoOfTexts<V extends object>(compute: (text: string) => V): (text: string) => V {
  const lately = new Lately<V>();
  return (text) => lately.get(text) ?? lately.keep(text, compute(text));
}

/** As `memoOfTexts`, of a name in a project. Of equal names in several projects, the one that came last is known. */
export function memoOfNames<V extends { readonly project: string }>(
  compute: (project: string, name: string) => V,
): (project: string, name: string) => V {
  const lately = new Lately<V>();
  return (project, name) => {
    const known = lately.get(name);
    return known?.project === project ? known : lately.keep(name, compute(project, name));
  };
}
