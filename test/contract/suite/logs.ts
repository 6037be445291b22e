/** Promises of a log: numbers without holes, generations that only rise, correct sums, and messages exactly as given. */
import { comparePositions, formatOffset, type Position } from "@sluice/protocol";
import { expect } from "vitest";
import { NO_HEAD } from "../../../packages/server/src/engine/contract.ts";
import { append, type Behavior, bytes, expectConflict, type Fixture, message, put, stream, text } from "./fixture.ts";

const a = stream("a");

export function logs(behavior: Behavior): void {
  behavior("begins empty, at the given position", async (on) => {
    const { nextGeneration: generation } = await on.load(a);
    const at = { generation, seq: 0 };
    const { head } = await on.commit(a, [{ op: "begin", generation, at }]);
    expect(head).toEqual({ generation, last: at, bytes: 0, at: 0, start: at, startBytes: 0 });
    await on.lives(async () => {
      expect((await on.load(a)).head).toEqual(head);
      expect(await on.messages(a)).toEqual([]);
    });
  });

  behavior("numbers messages from 1 without a hole, over commits and restarts", async (on) => {
    const generation = await on.begin(a);
    await on.append(a, "1", "2", "3");
    await on.append(a, "4");
    await on.commit(a, [append("5"), put("x", "1"), append("6", "7")]);
    await on.reopen();
    await on.append(a, "8");
    await on.lives(async () => {
      expect((await on.messages(a)).map(({ position }) => position)).toEqual(positions(generation, 1, 8));
      expect(await on.payloads(a)).toEqual(["1", "2", "3", "4", "5", "6", "7", "8"]);
    });
  });

  behavior("knows its last position, its bytes and the time of its last message", async (on) => {
    const generation = await on.begin(a);
    await on.commit(a, [{ op: "append", messages: [message("four", { at: 10 }), message("sixsix", { at: 12 })] }]);
    const { head } = await on.commit(a, [{ op: "append", messages: [message("", { at: 11 })] }]);
    const start = { generation, seq: 0 };
    expect(head).toEqual({ generation, last: { generation, seq: 3 }, bytes: 10, at: 11, start, startBytes: 0 });
    await on.lives(async () => {
      expect((await on.load(a)).head).toEqual(head);
      expect((await on.engine.read(a, start, 1)).head).toEqual(head);
    });
  });

  behavior("returns with each commit the head that the commit made", async (on) => {
    await on.begin(a);
    for (const payload of ["x", "yy", "zzz"]) {
      const { head } = await on.append(a, payload);
      expect((await on.load(a)).head).toEqual(head);
    }
  });

  behavior(
    "begun at a position of another generation continues with the next number, in its own generation",
    async (on) => {
      const { nextGeneration } = await on.load(a);
      const generation = nextGeneration + 5;
      const at = { generation: nextGeneration - 1, seq: 41 };
      const { head } = await on.commit(a, [{ op: "begin", generation, at }, append("42"), append("43", "44")]);
      expect(head).toMatchObject({ generation, start: at, last: { generation, seq: 44 }, bytes: 6, startBytes: 0 });
      await on.lives(async () => {
        expect((await on.messages(a)).map(({ position }) => position)).toEqual(positions(generation, 42, 3));
        expect(await on.payloads(a, at)).toEqual(["42", "43", "44"]);
        expect((await on.load(a)).head).toEqual(head);
      });
    },
  );

  behavior("begun anew is empty and counts from zero; rows and reminder stay", async (on) => {
    await on.begin(a);
    await on.commit(a, [append("old", "older"), put("x", "1"), { op: "remind", atMs: on.engine.now() }]);
    const { nextGeneration: generation } = await on.load(a);
    const at = { generation, seq: 0 };
    const { head } = await on.commit(a, [{ op: "begin", generation, at }, append("new")]);
    expect(head).toMatchObject({ generation, last: { generation, seq: 1 }, bytes: 3, start: at, startBytes: 0 });
    await on.lives(async () => {
      expect(await on.payloads(a)).toEqual(["new"]);
      expect(await on.row(a, "t", "x")).toBe("1");
      expect(await on.due()).toEqual([a.key]);
    });
  });

  behavior(
    "is offered a generation greater than all earlier ones, those of destroyed incarnations and other processes included",
    async (on) => {
      let highest = 0;
      const expectGreater = async () => {
        const { nextGeneration } = await on.load(a);
        expect(nextGeneration).toBeGreaterThan(highest);
        highest = nextGeneration;
      };
      for (let life = 0; life < 3; life++) {
        for (let incarnation = 0; incarnation < 3; incarnation++) {
          await expectGreater();
          await on.begin(a);
          await expectGreater();
          await on.begin(a);
          await on.append(a, "x");
          await on.commit(a, [{ op: "destroy" }]);
          await on.reopen();
        }
      }
    },
  );

  behavior("never shows an offset at or below an earlier one, whatever happened between", async (on) => {
    let shown = "";
    const check = async () => {
      for (const { position } of await on.messages(a)) {
        const offset = formatOffset(position);
        expect(offset > shown).toBe(true);
        shown = offset;
      }
    };
    for (let incarnation = 0; incarnation < 4; incarnation++) {
      await on.begin(a);
      await on.append(a, "1", "2");
      await check();
      await on.commit(a, [{ op: "destroy" }]);
      await on.reopen();
    }
  });

  behavior("refuses as a conflict a generation that another incarnation used since it was offered", async (on) => {
    const { rev, nextGeneration: generation } = await on.load(a);
    const begin = { op: "begin", generation, at: { generation, seq: 0 } } as const;
    await on.commit(a, [begin, append("shown")]);
    await on.commit(a, [{ op: "destroy" }]);
    const result = await on.engine.commit(a, { rev, keys: [] }, [begin, append("other")]);
    expectConflict(result, await on.load(a));
    expect((await on.load(a)).nextGeneration).toBeGreaterThan(generation);
  });

  behavior("shows a trim at once, to readers and in its head", async (on) => {
    const { generation, through } = await fiveMessages(on);
    const { head } = await on.commit(a, [{ op: "trim", through: through(2), bytes: 6 }]);
    expect(head).toMatchObject({ start: through(2), startBytes: 6, last: through(5), bytes: 15 });
    await on.lives(async () => {
      expect(await on.payloads(a)).toEqual(["333", "444", "555"]);
      expect(await on.payloads(a, through(1))).toEqual(["333", "444", "555"]);
      expect(await on.payloads(a, through(3))).toEqual(["444", "555"]);
      expect((await on.load(a)).head).toEqual(head);
      expect((await on.messages(a))[0]?.position).toEqual({ generation, seq: 3 });
    });
  });

  behavior("trimmed to its end is empty and continues with the next number", async (on) => {
    const { through } = await fiveMessages(on);
    const { head } = await on.commit(a, [{ op: "trim", through: through(5), bytes: 15 }]);
    expect(head).toMatchObject({ start: through(5), startBytes: 15, last: through(5), bytes: 15, at: 1 });
    await on.lives(async () => {
      expect(await on.engine.read(a, through(0), 100)).toEqual({ messages: [], head, atTail: true });
    });
    await on.append(a, "666");
    await on.lives(async () => expect((await on.messages(a)).map(({ position }) => position)).toEqual([through(6)]));
  });

  behavior("trimmed repeatedly keeps only the messages after the last trim", async (on) => {
    const { through } = await fiveMessages(on);
    for (let seq = 1; seq <= 4; seq++) {
      await on.commit(a, [{ op: "trim", through: through(seq), bytes: seq * 3 }]);
      expect((await on.messages(a)).map(({ position }) => position.seq)).toEqual([2, 3, 4, 5].slice(seq - 1));
    }
    await on.lives(async () => expect(await on.payloads(a)).toEqual(["555"]));
  });

  behavior("keeps id, key, attributes, time and every byte of a message", async (on) => {
    await on.begin(a);
    const every = Uint8Array.from({ length: 256 }, (_, i) => i);
    const framed = new Uint8Array(300).fill(7);
    framed.set(every, 20);
    const messages = [
      message(every, {
        at: 1_700_000_000_000,
        id: "id-1",
        key: "k/é",
        attributes: { a: "1", "": "", "\u{1F600}": "é" },
      }),
      message(framed.subarray(20, 276), { at: 2, key: "only a key" }),
      message(Buffer.from(every), { at: 3, id: "only an id" }),
      message("", { at: 0, id: "", key: "" }),
      message("x", { at: 5, attributes: JSON.parse('{"__proto__":"a","constructor":"b"}') }),
    ];
    await on.commit(a, [{ op: "append", messages }]);
    await on.lives(async () => {
      const found = await on.messages(a);
      expect(found.length).toBe(messages.length);
      for (const [i, { payload, at, id, key, attributes }] of messages.entries()) {
        expect(Buffer.compare(found[i]!.payload, payload)).toBe(0);
        expect([found[i]!.at, found[i]!.id, found[i]!.key]).toEqual([at, id, key]);
        expect(Object.entries(found[i]!.attributes ?? {})).toEqual(Object.entries(attributes ?? {}));
      }
    });
  });

  behavior("takes empty messages and messages of 8 MiB in one commit", async (on) => {
    await on.begin(a);
    const large = Uint8Array.from({ length: 8 * 1024 * 1024 }, (_, i) => (i * 31) ^ (i >>> 8));
    await on.commit(a, [append(bytes("")), append(large), append(bytes(""))]);
    await on.append(a, large);
    await on.lives(async () => {
      const found = await on.messages(a);
      expect(found.map(({ payload }) => payload.length)).toEqual([0, large.length, 0, large.length]);
      expect(Buffer.compare(found[1]!.payload, large)).toBe(0);
      expect(Buffer.compare(found[3]!.payload, large)).toBe(0);
      expect((await on.load(a)).head.bytes).toBe(2 * large.length);
    });
  });

  behavior("takes thousands of messages in one commit and in many", async (on) => {
    const generation = await on.begin(a);
    const payloads = Array.from({ length: 9_000 }, (_, i) => `message ${i}`);
    await on.append(a, ...payloads);
    for (let i = 0; i < 100; i++) await on.append(a, `late ${i}`);
    await on.lives(async () => {
      const found = await on.messages(a);
      // As text, because comparing thousands of objects takes longer than reading them.
      const shown = ({ generation: of, seq }: Position) => `${of}_${seq}`;
      expect(found.map(({ position }) => shown(position)).join()).toBe(
        positions(generation, 1, 9_100).map(shown).join(),
      );
      expect(found.slice(8_999, 9_002).map(({ payload }) => text(payload))).toEqual([
        "message 8999",
        "late 0",
        "late 1",
      ]);
    });
  });

  behavior("leaves a page that was read unchanged, and a row too, whatever is committed afterwards", async (on) => {
    await on.begin(a);
    const kept: { message: Uint8Array; row: Uint8Array }[] = [];
    for (let i = 0; i < 30; i++) {
      await on.commit(a, [append(`message ${i}`), put("x", `row ${i}`)]);
      const { rows } = await on.load(a, [{ table: "t", key: "x" }]);
      kept.push({ message: (await on.messages(a)).at(-1)!.payload, row: rows[0]! });
      await on.commit(a, [put("y", "z".repeat(100))]);
    }
    expect(kept.map(({ message, row }) => [text(message), text(row)])).toEqual(
      Array.from({ length: 30 }, (_, i) => [`message ${i}`, `row ${i}`]),
    );
  });

  behavior("never begun has no generation, however many rows its entity has", async (on) => {
    await on.commit(a, [put("x", "1")]);
    await on.lives(async () => {
      expect((await on.load(a)).head).toEqual(NO_HEAD);
      expect(await on.messages(a)).toEqual([]);
    });
  });
}

function positions(generation: number, from: number, count: number): Position[] {
  const made = Array.from({ length: count }, (_, i) => ({ generation, seq: from + i }));
  expect(made.slice(1).filter((position, i) => comparePositions(made[i]!, position) >= 0)).toEqual([]);
  return made;
}

async function fiveMessages(on: Fixture) {
  const generation = await on.begin(a);
  await on.append(a, "111", "222");
  await on.append(a, "333", "444", "555");
  return { generation, through: (seq: number): Position => ({ generation, seq }) };
}
