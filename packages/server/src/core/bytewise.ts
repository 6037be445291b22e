/**
 * The order of keys and ids everywhere: that of their UTF-8 bytes, because disks and clusters sort that way. Engines that sort
 * strings in JavaScript call it.
 *
 * Invariants: it agrees with a comparison of the encoded bytes. `<` does not: UTF-16 puts U+1F600 (a pair that starts with D83D)
 * before U+FF5E, UTF-8 puts it after.
 */

/** Negative when a sorts before b, zero when they are equal, positive when a sorts after b. */
export function compareBytewise(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** Surrogates stand for code points beyond U+FFFF, so they rank above every other unit. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
