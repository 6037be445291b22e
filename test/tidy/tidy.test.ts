/**
 * The tidy check: every rule on the whole tree, and every rule on a planted violation, which shows that the rule still
 * works. A failure lists file and line.
 */
import { describe, expect, it } from "vitest";
import * as rules from "./rules.ts";
import { lockFile, type Source, sourceOf, sourceTree } from "./source-tree.ts";

const SERVER = "packages/server/src";
const tree = sourceTree();

interface Expectation {
  readonly rule: rules.Rule;
  readonly says: string;
  /** Path and text that break the rule, and the line of the violation. */
  readonly broken: readonly (readonly [path: string, text: string, line: number])[];
  readonly fine: readonly (readonly [path: string, text: string])[];
}

const expectations: readonly Expectation[] = [
  {
    rule: rules.importsPointOneWay,
    says: "imports point one way",
    broken: [
      ["packages/protocol/src/a.ts", 'import x from "lmdb";', 1],
      ["packages/client/src/a.ts", 'import type { X } from "@sluice/server";', 1],
      [`${SERVER}/core/a.ts`, '\nimport type { X } from "../engine/contract.ts";', 2],
      [`${SERVER}/core/a.ts`, 'type X = import("../compose.ts").X;', 1],
      [`${SERVER}/engine/keeper.ts`, 'import { x } from "../streams/service.ts";', 1],
      [`${SERVER}/engine/contract.ts`, 'import { x } from "./memory/memory.ts";', 1],
      [`${SERVER}/engine/memory/a.ts`, 'import { x } from "../disk/a.ts";', 1],
      [`${SERVER}/engine/disk/a.ts`, 'import { x } from "../../streams/a.ts";', 1],
      [`${SERVER}/streams/a.ts`, 'export * from "../wakes/a.ts";', 1],
      [`${SERVER}/streams/a.ts`, 'const x = await import("../doors/http/a.ts");', 1],
      [`${SERVER}/streams/a.ts`, 'import { x } from "../engine/memory/memory.ts";', 1],
      [`${SERVER}/doors/http/a.ts`, 'import { x } from "../../compose.ts";', 1],
      [`${SERVER}/compose.ts`, 'import { x } from "./cli/main.ts";', 1],
      [`${SERVER}/compose.ts`, 'import { Sluice } from "@sluice/client";', 1],
      [`${SERVER}/sessions/a.ts`, 'import type { Session } from "@sluice/client";', 1],
      [`${SERVER}/attic/a.ts`, "export {};", 1],
    ],
    fine: [
      [`${SERVER}/wakes/a.ts`, 'import { x } from "../streams/a.ts"; import { y } from "@sluice/protocol";'],
      [
        `${SERVER}/engine/disk/a.ts`,
        'import { open } from "lmdb"; import { x } from "../contract.ts"; import "./b.ts";',
      ],
      [`${SERVER}/compose.ts`, 'import { x } from "./doors/http/a.ts"; import { y } from "./engine/disk/a.ts";'],
      [`${SERVER}/engine/keeper.test.ts`, 'import { x } from "./memory/memory.ts";'],
      [`${SERVER}/cli/a.ts`, 'import { Sluice } from "@sluice/client"; import { x } from "../compose.ts";'],
    ],
  },
  {
    rule: rules.timeAndChanceAreInjected,
    says: "time and chance are injected",
    broken: [
      [`${SERVER}/streams/a.ts`, "\n\nconst x = Date.now();", 3],
      [`${SERVER}/core/a.ts`, "const clock = { now: Date.now };", 1],
      [`${SERVER}/core/a.ts`, "const x = new Date();", 1],
      [`${SERVER}/engine/disk/a.ts`, "setTimeout(() => {}, 1);", 1],
      [`${SERVER}/engine/disk/worker.ts`, "globalThis.setInterval(() => {}, 1);", 1],
      [`${SERVER}/doors/http/a.ts`, "const later = setImmediate;", 1],
      [`${SERVER}/doors/http/a.ts`, 'import { setTimeout as wait } from "node:timers/promises";', 1],
      [`${SERVER}/pull/a.ts`, "const x = Math.random() < 0.5;", 1],
      [`${SERVER}/pull/a.ts`, "const x = performance.now();", 1],
      [`${SERVER}/pull/a.ts`, "const x = crypto.randomUUID();", 1],
      ["packages/protocol/src/a.ts", "const x = [1].map(() => 2) + Date.now();", 1],
      ["packages/client/src/live/cursor.ts", "const x = Date.now();", 1],
    ],
    fine: [
      [`${SERVER}/real-world.ts`, "const x = Date.now();"],
      [`${SERVER}/cli/a.ts`, "setTimeout(() => {}, 1);"],
      ["packages/client/src/live/browser-world.ts", "setTimeout(() => {}, 1);"],
      ["packages/client/src/backoff.ts", "const x = Date.now();"],
      [
        `${SERVER}/streams/a.ts`,
        "// Date.now() is not for us\nconst x = 'setTimeout(f)'; new Date(5); socket.setTimeout(5); world.random();",
      ],
      [`${SERVER}/streams/a.test.ts`, "const x = Date.now();"],
    ],
  },
  {
    rule: rules.portableCodeKnowsNoNode,
    says: "portable code knows no Node",
    broken: [
      ["packages/protocol/src/a.ts", 'import { x } from "node:util";', 1],
      [`${SERVER}/core/a.ts`, "\nconst x = Buffer.from([]);", 2],
      [`${SERVER}/engine/keeper.ts`, 'import type { X } from "node:http";', 1],
      [`${SERVER}/engine/memory/a.ts`, "const x = process.env.X;", 1],
      [`${SERVER}/wakes/a.ts`, "let x: Buffer;", 1],
      [`${SERVER}/doors/http/a.ts`, "function f(x: NodeJS.Timeout) {}", 1],
    ],
    fine: [
      [`${SERVER}/engine/disk/a.ts`, 'import { x } from "node:fs"; Buffer.alloc(1);'],
      [`${SERVER}/doors/http/http-door.ts`, 'import { x } from "node:http"; Buffer.alloc(1);'],
      [`${SERVER}/engine/a.ts`, "function claim(node: string) { return { process: node, Buffer: 1 }; } x.process();"],
    ],
  },
  {
    rule: rules.featuresNeverAskForTheEngine,
    says: "features never ask which engine they run on",
    broken: [
      [`${SERVER}/streams/a.ts`, "\nif (engine.exclusive) f();", 2],
      [`${SERVER}/wakes/a.ts`, "const f = () => this.parts.engine.exclusive;", 1],
      [`${SERVER}/sessions/a.ts`, "const { exclusive } = engine;", 1],
    ],
    fine: [
      [`${SERVER}/engine/a.ts`, "if (engine.exclusive) f();"],
      [`${SERVER}/streams/a.ts`, "isMemoryTruth(engine); // engine.exclusive"],
    ],
  },
  {
    rule: rules.filesAreShort,
    says: "files are short",
    broken: [["test/a.ts", "//\n".repeat(401), 401]],
    fine: [["test/a.ts", "//\n".repeat(400)]],
  },
  {
    rule: rules.filesOpenWithAComment,
    says: "files open with a comment",
    broken: [["scripts/a.mjs", 'import "node:fs"; // late', 1]],
    fine: [
      ["test/a.test.ts", 'import "node:fs";'],
      ["scripts/a.mjs", "#!/usr/bin/env node\n/** What it owns. */"],
      ["test/a.ts", "// What it owns."],
    ],
  },
  {
    rule: rules.namesAreKebabCase,
    says: "names are kebab-case",
    broken: [
      [`${SERVER}/core/flowControl.ts`, "", 1],
      [`${SERVER}/core/flow_control.ts`, "", 1],
      [`${SERVER}/Core/flow.ts`, "", 1],
    ],
    fine: [
      [`${SERVER}/core/flow-control.test.ts`, ""],
      ["vitest.config.ts", ""],
    ],
  },
  {
    rule: rules.namesSaySomething,
    says: "names say something",
    broken: [
      [`${SERVER}/core/utils.ts`, "", 1],
      [`${SERVER}/core/http-helper.ts`, "", 1],
      [`${SERVER}/manager/stream.ts`, "", 1],
      [`${SERVER}/core/lease-manager.test.ts`, "", 1],
    ],
    fine: [[`${SERVER}/core/utilization.ts`, ""]],
  },
  {
    rule: rules.noTestEscapes,
    says: "no test is skipped, singled out or retried",
    broken: [
      ["test/a.test.ts", '\nit.skip("x", () => {});', 2],
      ["test/a.test.ts", 'describe.only("x", () => {});', 1],
      ["test/a.test.ts", 'describe.concurrent.skipIf(true)("x", () => {});', 1],
      ["test/a.ts", 'test("x", (ctx) => ctx.skip());', 1],
      ["test/a.test.ts", 'it("x", { retry: 3 }, () => {});', 1],
      ["vitest.config.ts", "export default { test: { retry: 1 } };", 1],
    ],
    fine: [["test/a.test.ts", 'it.each([1])("skip", () => {}); page.skip(1); stream.write("retry: 1000");']],
  },
  {
    rule: rules.relativeImportsNameTheirFile,
    says: "relative imports name their file",
    broken: [
      [`${SERVER}/core/a.ts`, 'import { x } from "./b";', 1],
      ["test/a.test.ts", '\nexport * from "./b.js";', 2],
      ["test/a.test.ts", 'await import("../b");', 1],
    ],
    fine: [["test/a.test.ts", 'import "./b.ts"; import "vitest"; new URL("./c", import.meta.url);']],
  },
];

describe("the source tree", () => {
  for (const { rule, says } of [
    ...expectations,
    { rule: rules.exceptionsNameWhatExists, says: "exceptions name what exists" },
  ]) {
    it(says, () => expect(rule(tree)).toEqual([]));
  }

  it("has a lock file that names no registry", () => expect(rules.lockNamesNoRegistry(lockFile())).toEqual([]));

  it("was read completely", () => {
    const paths = new Set(tree.map(({ path }) => path));
    for (const path of [`${SERVER}/engine/contract.ts`, "packages/protocol/src/offset.ts", "test/tidy/tidy.test.ts"]) {
      expect(paths).toContain(path);
    }
    expect(tree.flatMap(({ imports }) => imports).length).toBeGreaterThan(100);
  });
});

describe("a tidy rule finds its violations, and nothing else:", () => {
  for (const { rule, says, broken, fine } of expectations) {
    it(says, () => {
      for (const [path, text, line] of broken) {
        const found = rule([sourceOf(path, text)]);
        expect(found.length, text).toBeGreaterThan(0);
        for (const violation of found) expect(violation, text).toContain(`${path}:${line}: `);
      }
      for (const [path, text] of fine) expect(rule([sourceOf(path, text)]), text).toEqual([]);
    });
  }

  it("exceptions name what exists", () => {
    const without = tree.filter(({ path }: Source) => !path.endsWith("http-door.ts"));
    expect(rules.exceptionsNameWhatExists(without)).toEqual([
      expect.stringContaining("http-door"),
      expect.stringContaining("http-door"),
    ]);
  });

  it("the lock file names no registry", () => {
    const text = '{\n  "resolved": "https://registry.example/x.tgz"\n}';
    expect(rules.lockNamesNoRegistry({ path: "package-lock.json", text })).toEqual([
      expect.stringContaining("package-lock.json:2: "),
    ]);
  });
});
