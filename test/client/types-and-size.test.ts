import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, test } from "vitest";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

test("the published types compile in a page, without the types of Node", async () => {
  const tsc = path("../../node_modules/typescript/bin/tsc");
  const project = path("browser-types/tsconfig.json");
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [tsc, "-p", project], (_, stdout, stderr) => resolve(stdout + stderr));
  });
  expect(output).toBe("");
});

/** `external`: imports that stay imports, as in a bundle that is split where a part is loaded on demand. */
async function bundled(source: string, external: string[] = []): Promise<{ text: string; inputs: string[] }> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: source, resolveDir: path("."), loader: "ts" },
    alias: {
      "@sluice/client": path("../../packages/client/src/index.ts"),
      "@sluice/protocol": path("../../packages/protocol/src/index.ts"),
    },
    bundle: true,
    external,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    write: false,
    metafile: true,
  });
  const [output] = Object.values(metafile.outputs);
  const inputs = Object.entries(output!.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  return { text: outputFiles[0]!.text, inputs: inputs.map(([name]) => name) };
}

test("a page that uses the client loads a small file, without any other package and without what is loaded on demand", async () => {
  const onDemand = ["./live/open-session.ts", "./groups/group-part.ts"];
  const { text, inputs } = await bundled(`export * from "@sluice/client";`, onDemand);
  expect(inputs.filter((name) => !/^packages\/(client|protocol)\/src\//.test(name))).toEqual([]);
  expect(inputs.filter((name) => /\/(live|groups)\//.test(name))).toEqual([]);
  expect(inputs.join()).not.toContain("protocol/src/error.ts");
  expect(gzipSync(text).length).toBeLessThan(16.5 * 1024);
});

test("the live part and groups are small on their own, and with all that a page without splitting loads at once", async () => {
  const live = await bundled(`export * from "../../packages/client/src/live/open-session.ts";`);
  expect(gzipSync(live.text).length).toBeLessThan(12_000);
  const groups = await bundled(`export * from "../../packages/client/src/groups/group-part.ts";`);
  expect(gzipSync(groups.text).length).toBeLessThan(6_600);
  const whole = await bundled(`export * from "@sluice/client";`);
  expect(whole.inputs.filter((name) => !/^packages\/(client|protocol)\/src\//.test(name))).toEqual([]);
  expect(gzipSync(whole.text).length).toBeLessThan(30 * 1024);
});

test("a page that uses one part does not load the rest", async () => {
  const { text } = await bundled(`import { SseParser } from "@sluice/client"; console.log(new SseParser(1));`);
  expect(text.length).toBeLessThan(4 * 1024);
});
