/** What the text of a page promises about the output of its blocks. A page without an entry promises that its blocks succeed. */
import { expect } from "vitest";

/** `output` is what the shell blocks wrote, `seen` what the programs handed to the application. */
export type Check = (output: string, seen: readonly unknown[]) => void;

const statuses = (output: string): number[] =>
  [...output.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((match) => Number(match[1]));

export const promises: Readonly<Record<string, Check>> = {
  "README.md": (output, seen) => {
    expect(output).toContain('{"from":"ada","text":"hello"}');
    expect(output).toContain(
      '[{"from":"ada","text":"hello"},{"from":"bob","text":"hi"},{"from":"cy","text":"hello, both"}]',
    );
    expect(seen).toContainEqual(expect.objectContaining({ type: "message", value: { from: "ada", text: "hello" } }));
    expect(output).toMatch(/^ok$/m);
  },
  "docs/streams.md": (output) => {
    expect(statuses(output).slice(0, 6)).toEqual([201, 204, 204, 200, 200, 204]);
    expect(output).toContain('[{"from":"ada","text":"hello"},{"from":"bob","text":"hi"}]');
    expect(output).toContain("event: data");
    // Alone, or with what was there before, if the append was quicker than the reader.
    expect(output).toMatch(/^data:\[.*\{"from":"ada","text":"still here\?"\}\]$/m);
    // Once in the envelopes, once in the read of the last ten minutes.
    expect(output.match(/\{"from":"ed","text":"once"\}/g)).toHaveLength(2);
    expect(output).toContain('"path":"chat/room1"');
    expect(output).toMatch(/^Stream-Closed: true/im);
  },
  "docs/sessions.md": (output) => {
    expect(statuses(output)).toEqual([201, 200, 201, 200, 204, 204, 200, 200, 204, 204]);
    expect(output.match(/"isNewSession":(true|false)/g)).toEqual(['"isNewSession":true', '"isNewSession":false']);
    expect(output.match(/^Stream-Fanout-(Count: 1|Successes: 1|Failures: 0|Mode: inline)\r$/gm)).toHaveLength(8);
    expect(output).toMatch(
      /^\[\{"stream":"notices\/ada".*"your parcel is here".*"notices\/all".*"fire drill at eleven"\}\}\]/m,
    );
    expect(output).toMatch(/^data:\[.*"stream":"notices\/all".*"a plain append is copied too"\}\}\]$/m);
    expect(output).toMatch(/"subscriptions":\[\{"streamId":"notices\/ada".*"streamId":"notices\/all"/);
  },
  "docs/wakes.md": (output) => {
    expect(output).toContain('{"item":"tea"}');
    expect(output).toContain('{"ok":true,"next_wake":false}');
  },
  "docs/groups.md": (output, seen) => {
    expect(output).toContain("orders/17");
    expect(seen).toEqual(expect.arrayContaining([{ item: "milk" }, { item: "rice" }, { to: "ada@example.com" }]));
  },
};
