/** Finds what a person has changed in a text field, from the text before and after. The editor calls it on every input. */

/** The letters from `from` up to `to` were replaced by `text`. */
export interface Change {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** The caret behind the change tells which of several equal letters is the new one. */
export function changeOf(before: string, after: string, caret: number): Change {
  const mostBehind = Math.min(before.length, after.length - caret);
  let behind = 0;
  while (behind < mostBehind && before.at(-1 - behind) === after.at(-1 - behind)) behind++;
  if (isSecondOfPair(before, before.length - behind)) behind--;
  const mostAhead = Math.min(before.length, after.length) - behind;
  let ahead = 0;
  while (ahead < mostAhead && before[ahead] === after[ahead]) ahead++;
  if (isSecondOfPair(before, ahead)) ahead--;
  return { from: ahead, to: before.length - behind, text: after.slice(ahead, after.length - behind) };
}

/** A character of two code units is replaced as a whole. */
function isSecondOfPair(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return at > 0 && at < text.length && unit >= 0xdc00 && unit <= 0xdfff;
}
