import { expect, test } from "vitest";
import { LineBuffer, type Outlet } from "./line-buffer.ts";

const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString();

/** An outlet that takes a write when the test says so, and timers that run when it says so. */
function fixture() {
  const written: string[] = [];
  const underWay: ((fault?: unknown) => void)[] = [];
  const timers = new Set<() => void>();
  const outlet: Outlet = {
    write(bytes, done) {
      written.push(textOf(bytes));
      underWay.push(done);
    },
    writeNow: (bytes) => void written.push(textOf(bytes)),
  };
  const after = (_: number, task: () => void) => {
    timers.add(task);
    return () => void timers.delete(task);
  };
  const limits = { holdMs: 10, writeBytes: 20, bufferBytes: 50 };
  const buffer = new LineBuffer(outlet, { after }, (count) => `${count} missing\n`, limits);
  return {
    buffer,
    written,
    take: (fault?: unknown) => underWay.shift()!(fault),
    tick: () => {
      for (const task of [...timers]) {
        timers.delete(task);
        task();
      }
    },
  };
}

test("lines wait a moment for each other and go out together", () => {
  const { buffer, written, tick } = fixture();
  buffer.add("a\n");
  buffer.add("b\n");
  expect(written).toEqual([]);
  tick();
  expect(written).toEqual(["a\nb\n"]);
});

test("much goes out without waiting, one write at a time", () => {
  const { buffer, written, take } = fixture();
  for (let i = 0; i < 8; i++) buffer.add(`line ${i}\n`);
  expect(written).toEqual(["line 0\nline 1\nline 2\n"]);
  take();
  expect(written).toEqual(["line 0\nline 1\nline 2\n", "line 3\nline 4\nline 5\nline 6\nline 7\n"]);
});

test("what does not fit is dropped and counted, and a line says how many when there is room again", () => {
  const { buffer, written, take, tick } = fixture();
  for (let i = 0; i < 20; i++) buffer.add(`line ${10 + i}\n`);
  expect(buffer.dropped).toBe(11);
  take();
  take();
  tick();
  expect(written.join("")).toContain("11 missing\n");
  expect(written.join("").match(/line/g)).toHaveLength(9);
});

test("lines that the outlet refuses are counted, and the next ones are tried all the same", () => {
  const { buffer, written, take, tick } = fixture();
  buffer.add("a\n");
  buffer.add("b\n");
  tick();
  take(new Error("gone"));
  expect(buffer.dropped).toBe(2);
  buffer.add("c\n");
  tick();
  expect(written.at(-1)).toBe("c\n");
});

test("the last moment writes what waits", () => {
  const { buffer, written } = fixture();
  buffer.add("a\n");
  buffer.flushNow();
  buffer.flushNow();
  expect(written).toEqual(["a\n"]);
});

test("closing waits for what is under way and what waits behind it, but not for ever", async () => {
  const { buffer, written, take, tick } = fixture();
  await buffer.close(1);
  buffer.add("a\n");
  tick();
  buffer.add("b\n");
  let isClosed = false;
  const closing = buffer.close(1).then(() => {
    isClosed = true;
  });
  take();
  await Promise.resolve();
  expect(isClosed).toBe(false);
  expect(written).toEqual(["a\n", "b\n"]);
  take();
  await closing;
  buffer.add("c\n");
  const stuck = buffer.close(1);
  tick();
  await stuck;
});

test("lines under way stay as they are while others come, and every character arrives", () => {
  const underWay: { bytes: Uint8Array; done: () => void }[] = [];
  const outlet: Outlet = { write: (bytes, done) => void underWay.push({ bytes, done }), writeNow: () => {} };
  const limits = { holdMs: 10, writeBytes: 20, bufferBytes: 10_000 };
  const buffer = new LineBuffer(outlet, { after: () => () => {} }, () => "", limits);
  let written = "";
  let expected = "";
  for (let round = 0; round < 20; round++) {
    for (let i = 0; i < round; i++) {
      const line = `${round} ${i} \u00fc\u20ac\u{1f600}\n`;
      expected += line;
      buffer.add(line);
    }
    const write = underWay.shift();
    if (write === undefined) continue;
    written += textOf(write.bytes);
    write.done();
  }
  for (const { bytes } of underWay) written += textOf(bytes);
  expect(written).toBe(expected);
});
