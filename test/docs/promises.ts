/** What the text of a page promises about the output of its blocks. A page without an entry promises that its blocks succeed. */
import { expect } from "vitest";

/** `output` is what the shell blocks wrote, `seen` what the programs handed to the application. */
export type Check = (output: string, seen: readonly unknown[]) => void;

export const promises: Readonly<Record<string, Check>> = {
  "docs/sessions.md": (output) => {
    expect(output.match(/"isNewSession":(true|false)/g)).toEqual(['"isNewSession":true', '"isNewSession":false']);
    expect(output).toMatch(/^data:\[.*"stream":"notices\/all".*"a plain append is copied too"\}\}\]$/m);
  },
};
