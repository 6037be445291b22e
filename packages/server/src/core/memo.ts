/** Remembers what was computed for an object, as long as that object lives. */

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
