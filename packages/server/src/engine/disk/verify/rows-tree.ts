/** The tree that holds the rows, as the checks of its pages need to know it: which keys there are, and how they sort. */
import { MAX_KEY_BYTES } from "../keys.ts";
import type { TreeKind } from "./tree-page.ts";

export const ROWS: TreeKind = {
  name: "the tree of rows",
  minKey: 1,
  maxKey: MAX_KEY_BYTES,
  minChildren: 2,
  compare(a, aFrom, aLength, b, bFrom, bLength) {
    const length = Math.min(aLength, bLength);
    for (let i = 0; i < length; i++) {
      const difference = a[aFrom + i]! - b[bFrom + i]!;
      if (difference !== 0) return difference;
    }
    return aLength - bLength;
  },
};
