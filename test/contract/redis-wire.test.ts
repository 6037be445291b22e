/** Commits and other operations on Redis over a connection that loses answers, delays calls, or goes silent. */
import { ZERO } from "@sluice/protocol";
import { describe, expect, it } from "vitest";
import type { Effect } from "../../packages/server/src/engine/contract.ts";
import { eventually, sleep } from "../support/eventually.ts";
import { a, closeEngines, opened, overProxy, proxied, single } from "./redis-fixture.ts";
import { append, bytes, put, stream, text } from "./suite/fixture.ts";

describe("a commit that is sent again", () => {
  it("after its answer was lost is recognized, also if another node has committed on top", async () => {
    const server = await single();
    const proxy = await proxied(server);
    const one = await opened({ urls: [`redis://127.0.0.1:${proxy.port}`] }, { commandMs: 300, deadlineMs: 10_000 });
    const two = await opened({ urls: [server.url] });
    const { nextGeneration: generation } = await one.load(a, []);
    const begun = await one.commit(a, { rev: 0 }, [{ op: "begin", generation, at: { generation, seq: 0 } }]);
    if (begun.kind !== "done") throw new Error(begun.kind);
    const outcomes: string[] = [];
    for (let round = 0; round < 5; round++) {
      const { rev } = await one.load(a, []);
      proxy.swallowAnswers();
      const committing = one.commit(a, { rev }, [append(`one ${round}`)]);
      await eventually(async () => expect((await two.load(a, [])).rev).not.toBe(rev));
      if (round % 2 === 0) {
        const meanwhile = await two.load(a, []);
        await two.commit(a, { rev: meanwhile.rev }, [append(`two ${round}`)]);
      }
      proxy.heal();
      outcomes.push((await committing).kind);
    }
    const { messages } = await one.read(a, ZERO, 1 << 20);
    const lines = messages.map(({ payload }) => text(payload));
    expect(outcomes).toEqual(["done", "done", "done", "done", "done"]);
    expect(lines).toEqual(["one 0", "two 0", "one 1", "one 2", "two 2", "one 3", "one 4", "two 4"]);
  });
});

describe("a claim that is sent again", () => {
  it("after its answer was lost is granted to the node that made it", async () => {
    const { proxy, near, far } = await overProxy({ commandMs: 300, deadlineMs: 10_000 });
    proxy.swallowAnswers();
    const claiming = far.claim(a, "far", 60_000);
    await eventually(async () => expect(await near.claim(a, "near", 1)).toMatchObject({ kind: "held", node: "far" }));
    proxy.heal();
    expect(await claiming).toMatchObject({ kind: "owner" });
  });
});

describe("a commit by the node that committed last", () => {
  it("conflicts after another master has taken over, and later messages sort above all earlier ones", async () => {
    const { server, near } = await overProxy({});
    const before = await near.load(a, []);
    const first = await near.commit(a, { rev: before.rev }, [append("first")]);
    if (first.kind !== "done") throw new Error(first.kind);
    await server.admin((redis) => redis.call("DEBUG", "CHANGE-REPL-ID"));
    // Longer than a master's history is cached.
    await sleep(20);
    const conflict = await near.commit(a, { rev: first.rev }, [append("second")]);
    if (conflict.kind !== "conflict") throw new Error(conflict.kind);
    const { rev, head } = conflict.snapshot;
    expect(head.generation).toBeGreaterThan(first.head.generation);
    expect(head.survived).toEqual(first.head.last);
    for (const [i, text] of ["second", "third"].entries()) {
      const { rev: now } = await near.load(a, []);
      if (i === 0) expect(now).toBe(rev);
      const done = await near.commit(a, { rev: now }, [append(text)]);
      expect(done).toMatchObject({ kind: "done", head: { last: { generation: head.generation, seq: 2 + i } } });
    }
    expect((await near.read(a, ZERO, 1 << 20)).head.survived).toEqual(first.head.last);
  });

  it("conflicts with every commit that another node has made meanwhile", async () => {
    const { near, far } = await overProxy({});
    let { rev } = await near.load(a, []);
    for (let round = 0; round < 10; round++) {
      const mine = await near.commit(a, { rev }, [append(`near ${round}`)]);
      if (mine.kind !== "done") throw new Error(mine.kind);
      const theirs = await far.commit(a, { rev: mine.rev }, [append(`far ${round}`)]);
      if (theirs.kind !== "done") throw new Error(theirs.kind);
      const keys = [{ table: "t", key: "x" }];
      const conflict = await near.commit(a, { rev: mine.rev, keys }, [append("lost"), put("x", "lost")]);
      if (conflict.kind !== "conflict") throw new Error(conflict.kind);
      expect(conflict.snapshot).toMatchObject({ rev: theirs.rev, rows: [undefined] });
      rev = conflict.snapshot.rev;
    }
    const { messages } = await near.read(a, ZERO, 1 << 20);
    expect(messages.map(({ payload }) => text(payload))).toEqual(
      Array.from({ length: 10 }, (_, i) => [`near ${i}`, `far ${i}`]).flat(),
    );
  });

  it("leaves the same state as a general commit: messages with all fields, rows, trims", async () => {
    const { near, far } = await overProxy({});
    const full = { payload: bytes("full"), at: 7, id: "i", key: "k", attributes: { b: "1" } };
    const effects: Effect[] = [
      append("one", "two"),
      { op: "append", messages: [{ payload: bytes("three"), at: 5 }, full, { payload: bytes("five"), at: 9 }] },
      put("x", "1"),
      put("y", "2"),
      { op: "drop", table: "t", key: "x" },
    ];
    const { rev, head } = await near.load(a, []);
    const first = await near.commit(a, { rev }, [append("zero")]);
    if (first.kind !== "done") throw new Error(first.kind);
    const { generation } = head;
    const trim: Effect = { op: "trim", through: { generation, seq: 2 }, bytes: 7 };
    const done = await near.commit(a, { rev: first.rev }, [...effects, trim]);
    if (done.kind !== "done") throw new Error(done.kind);
    const seen = await far.load(a, [
      { table: "t", key: "x" },
      { table: "t", key: "y" },
    ]);
    expect(seen.head).toEqual({ ...done.head, survived: undefined });
    expect(seen.rev).toBe(done.rev);
    expect(seen.head).toMatchObject({ last: { generation, seq: 6 }, start: { generation, seq: 2 }, at: 9 });
    expect(seen.rows.map((row) => row && text(row))).toEqual([undefined, "2"]);
    expect((await far.rows(a, "t", "", 10)).map(({ key }) => key)).toEqual(["y"]);
    const { messages } = await far.read(a, { generation, seq: 2 }, 1 << 20);
    expect(messages.map(({ payload, ...rest }) => [text(payload), rest])).toEqual([
      ["two", { position: { generation, seq: 3 }, at: messages[0]!.at }],
      ["three", { position: { generation, seq: 4 }, at: 5 }],
      ["full", { position: { generation, seq: 5 }, at: 7, id: "i", key: "k", attributes: { b: "1" } }],
      ["five", { position: { generation, seq: 6 }, at: 9 }],
    ]);
  });

  it("wakes the watchers", async () => {
    const { near, far } = await overProxy({ pollMs: 60_000 });
    let heard = 0;
    far.watch(a, () => heard++);
    await eventually(() => expect(heard).toBeGreaterThan(0));
    let { rev } = await near.load(a, []);
    for (let i = 0; i < 5; i++) {
      const before = heard;
      const done = await near.commit(a, { rev }, [append("x")]);
      if (done.kind !== "done") throw new Error(done.kind);
      rev = done.rev;
      await eventually(() => expect(heard).toBeGreaterThan(before));
    }
  });
});

describe("a commit whose answer was lost in a failover", () => {
  it("learns the positions of its messages, and so does the next one", async () => {
    const { server, proxy, near, far } = await overProxy({ commandMs: 300, deadlineMs: 10_000 });
    const before = await far.load(a, []);
    proxy.swallowAnswers();
    const committing = far.commit(a, { rev: before.rev }, [append("first")]);
    await eventually(async () => expect((await near.load(a, [])).head.last.seq).toBe(1));
    await server.admin((redis) => redis.call("DEBUG", "CHANGE-REPL-ID"));
    const raised = await near.commit(a, { rev: 0 }, []);
    expect(raised.kind).toBe("conflict");
    proxy.heal();
    const first = await committing;
    const told = [first];
    if (first.kind === "done") told.push(await far.commit(a, { rev: first.rev }, [append("second")]));
    const { messages } = await near.read(a, ZERO, 1 << 20);
    for (const [i, result] of told.entries()) {
      if (result.kind === "done") expect(result.head.last).toEqual(messages[i]!.position);
    }
    expect(told.map(({ kind }) => kind)).toEqual(["done", "conflict"]);
  });
});

describe("a Redis that has gone silent", () => {
  it("delays no operation beyond its deadline, even if a single call may take longer", async () => {
    const { proxy, far } = await overProxy({ commandMs: 60_000, connectMs: 60_000, deadlineMs: 500 });
    const { rev } = await far.load(a, []);
    proxy.cut();
    const startMs = Date.now();
    const operations: [string, () => unknown][] = [
      ["load", () => far.load(a, [])],
      ["commit", () => far.commit(a, { rev }, [put("x", "1")])],
      ["rows", () => far.rows(a, "t", "", 1)],
      ["read", () => far.read(a, ZERO, 1)],
      ["claim", () => far.claim(a, "n", 1_000)],
      ["due", () => far.due(0, 1)],
      ["list", () => far.list("p", "stream", "", "", 1)],
      ["projects", () => far.projects("stream")],
      ["hit", () => far.hit("k", 1, 1_000)],
    ];
    const outcomes = await Promise.all(
      operations.map(async ([name, run]) => {
        const code = await Promise.resolve(run()).then(
          () => "done",
          (fault) => fault.code,
        );
        return [name, code];
      }),
    );
    expect(outcomes).toEqual(operations.map(([name]) => [name, "unavailable"]));
    // Far less than the limit of a call; the slack is for a busy machine.
    expect(Date.now() - startMs).toBeLessThan(10_000);
  });
});

describe("a commit that was given up", () => {
  it.each([
    ["a node's first", false],
    ["one of many", true],
  ])("does not apply once a later one is done, even one that changes nothing: %s", async (_, hasCommitted) => {
    const { proxy, near, far } = await overProxy({ commandMs: 200, deadlineMs: 400 });
    let before = await far.load(a, []);
    if (hasCommitted) {
      await far.commit(a, { rev: before.rev }, [put("y", "1")]);
      before = await far.load(a, []);
    }
    proxy.hold();
    await expect(far.commit(a, { rev: before.rev }, [append("too late")])).rejects.toMatchObject({
      code: "unavailable",
    });
    proxy.letIn();
    expect(await far.commit(a, { rev: before.rev }, [])).toMatchObject({ kind: "done", rev: before.rev });
    proxy.release();
    // Every earlier call has arrived when this one is answered.
    await eventually(async () => {
      await near.commit(a, { rev: before.rev }, [put("x", "1")]);
      expect(await near.load(a, [])).toMatchObject({ head: { last: { seq: 0 } } });
    });
    expect((await near.read(a, ZERO, 100)).messages).toEqual([]);
  });

  it("while it waited behind an unanswered one is never sent", async () => {
    const { proxy, near, far } = await overProxy({ commandMs: 60_000, deadlineMs: 300, flyingBytes: 1 });
    const b = stream("b");
    proxy.hold();
    const outcomes = await Promise.allSettled([a, b].map((e) => far.commit(e, { rev: 0 }, [put("x", "1")])));
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    proxy.release();
    // Every earlier call has arrived when this one is answered.
    await eventually(async () => void (await far.load(a, [])));
    expect(await near.load(b, [])).toMatchObject({ rev: 0 });
  });

  it("because its arguments are not numbers changes nothing", async () => {
    const engine = await opened({ urls: [(await single()).url] });
    for (const atMs of [Number.NaN, 1.5, Number.POSITIVE_INFINITY]) {
      await expect(engine.commit(a, { rev: 0 }, [put("x", "1"), { op: "remind", atMs }])).rejects.toThrow(
        /whole number/,
      );
    }
    expect((await engine.load(a, [])).rev).toBe(0);
  });
});

describe("an engine that was closed", () => {
  it("leaves no connection behind, whatever was in flight", async () => {
    const { server, proxy, far } = await overProxy({ commandMs: 300, deadlineMs: 2_000 });
    proxy.cut();
    const underWay = [far.load(a, []), far.commit(a, { rev: 0 }, [put("x", "1")])].map((call) =>
      Promise.resolve(call).catch(() => "refused"),
    );
    await far.close();
    proxy.heal();
    expect(await Promise.all(underWay)).toEqual(["refused", "refused"]);
    await closeEngines();
    await eventually(async () => {
      const clients = String(await server.admin((redis) => redis.call("CLIENT", "LIST")));
      expect(clients.trim().split("\n")).toHaveLength(1);
    });
  });
});
