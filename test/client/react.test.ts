import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { type LiveSession, Sluice } from "@sluice/client";
import type * as Hooks from "@sluice/client/react";
import { build } from "esbuild";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { eventually, type Fixture, serverForTest } from "../e2e/server.ts";

type Element = object;

/** The part of React that the tests use themselves. Its own types would bring those of a page. */
interface ReactLike {
  readonly version: string;
  readonly StrictMode: unknown;
  createElement(type: unknown, props: object | null, ...children: Element[]): Element;
}

interface Rendered {
  toJSON(): unknown;
  update(element: Element): void;
  unmount(): void;
}

interface TestRenderer {
  create(element: Element, options: object): Rendered;
  act(run: () => unknown): Promise<void>;
}

const source = fileURLToPath(new URL("../../packages/client/src/react.ts", import.meta.url));

/** The hooks as the bundler of a page with this React makes them. */
async function hooksWith(require: NodeJS.Require): Promise<typeof Hooks> {
  const external = ["react"];
  const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "cjs", external, write: false });
  const module = { exports: {} as typeof Hooks };
  new Function("require", "module", outputFiles[0]!.text)(require, module);
  return module.exports;
}

describe.each(["18", "19"])("with React %s,", (version) => {
  const require = createRequire(new URL(`../react-${version}/package.json`, import.meta.url));
  const React = require("react") as ReactLike;
  const { create, act } = require("react-test-renderer") as TestRenderer;
  const { renderToString } = require("react-dom/server") as { renderToString(element: unknown): string };
  let hooks: typeof Hooks;
  let fixture: Fixture;
  let asked: string[];
  let sluice: Sluice;

  beforeEach(async () => {
    vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
    // React 19 says that its test renderer will go one day.
    vi.spyOn(console, "error").mockImplementation(() => {});
    expect(React.version.split(".")[0]).toBe(version);
    hooks ??= await hooksWith(require);
    fixture = await serverForTest("memory");
    asked = [];
    const heard: typeof fetch = (input, init) => {
      asked.push(`${init?.method} ${new URL(String(input)).pathname.replace("/v1/default/", "")}`);
      return fetch(input, init);
    };
    sluice = new Sluice({ url: fixture.url, fetch: heard, retries: { minMs: 1, maxMs: 20, giveUpMs: 50 } });
  });
  afterEach(async () => {
    for (const tree of mounted.splice(0)) await act(() => tree.unmount());
    await sluice.close();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });

  const mounted: Rendered[] = [];
  let session: LiveSession | undefined;
  function Doc({ path }: { readonly path: string }) {
    const used = hooks.useSession(sluice, { transport: "sse" });
    const { messages, catchUp, end } = hooks.useStream<string>(used.session, path, { from: "beginning", keep: 3 });
    const { members } = hooks.usePresence(used.session, path, { path });
    session = used.session;
    const how = end?.reason ?? catchUp?.outcome ?? "…";
    return [used.status, used.error?.code ?? "", how, members.length, ...messages.map(({ value }) => value)].join(" ");
  }

  async function mount(path: string): Promise<{ tree: Rendered; shows: (text: string) => Promise<void> }> {
    let tree!: Rendered;
    const element = React.createElement(React.StrictMode, null, React.createElement(Doc, { path }));
    await act(() => {
      tree = create(element, { unstable_isConcurrent: true });
    });
    mounted.push(tree);
    const shows = (text: string) =>
      eventually(async () => {
        await act(async () => {});
        expect(tree.toJSON()).toBe(text);
      });
    return { tree, shows };
  }

  test("strict mode opens one session, and the component shows the latest messages and the members", async () => {
    const doc = sluice.stream<string>("doc/9");
    for (const text of ["a", "b"]) await doc.append(text);
    asked.length = 0;
    const { shows } = await mount("doc/9");
    await shows("live  complete 1 a b");
    for (const text of ["c", "d"]) await doc.append(text);
    await shows("live  complete 1 b c d");
    expect(asked.filter((line) => line === "POST sessions").length).toBe(1);
    expect(asked.filter((line) => line.startsWith("GET live/")).length).toBe(1);
  });

  test("another path is another stream, and a component that goes leaves its stream and not the session", async () => {
    await sluice.stream<string>("one").append("1");
    await sluice.stream<string>("two").append("2");
    const { tree, shows } = await mount("one");
    await shows("live  complete 1 1");
    await act(() =>
      tree.update(React.createElement(React.StrictMode, null, React.createElement(Doc, { path: "two" }))),
    );
    await shows("live  complete 1 2");
    await act(() => tree.unmount());
    await eventually(() => expect(asked.filter((line) => line === "DELETE subscriptions").length).toBe(2));
    expect(session?.status).toBe("live");
  });

  test("after the page closed its session, a component that is mounted shows the end instead of failing", async () => {
    await sluice.stream<string>("one").append("1");
    const { shows, tree } = await mount("one");
    await shows("live  complete 1 1");
    await session!.close();
    await act(() =>
      tree.update(React.createElement(React.StrictMode, null, React.createElement(Doc, { path: "two" }))),
    );
    await shows("offline  closed 0");
  });

  test("a server renders without a request", async () => {
    expect(renderToString(React.createElement(Doc, { path: "doc/9" }))).toContain("connecting  … 0");
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(asked).toEqual([]);
  });

  test("a session that cannot be opened shows why, and is tried again", async () => {
    await sluice.stream<string>("doc/9").append("a");
    const { url } = fixture;
    let isDown = true;
    let tries = 0;
    const failing: typeof fetch = (input, init) => {
      tries++;
      return isDown ? Promise.reject(new TypeError("down")) : fetch(input, init);
    };
    sluice = new Sluice({ url, fetch: failing, retries: { giveUpMs: 0 } });
    const { shows } = await mount("doc/9");
    await shows("offline unreachable … 0");
    // A few turns of the event loop later.
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    expect(tries).toBeLessThan(5);
    isDown = false;
    await shows("live  complete 1 a");
  });
});
