/** The tours of the README and of the manual, pasted as they stand into a shell: every command works and shows what the text promises. */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createServer } from "@sluice/server";
import { expect, test } from "vitest";
import { loadSettings } from "../../packages/server/src/config/load.ts";

/** The commands between the heading of the tour and the next one. */
function tour(file: string, url: string): string {
  const text = readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
  const from = text.indexOf("## A tour");
  const section = text.slice(from, text.indexOf("\n## ", from));
  const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map((match) => match[1]);
  expect(blocks.length).toBeGreaterThan(1);
  // A person waits until it is there; a busy machine may take longer than the second that the text allows.
  return blocks.join("\n").replaceAll("http://127.0.0.1:4437", url).replaceAll("sleep 1;", "sleep 3;");
}

function paste(script: string): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    // Job control on, as in the terminal of a person, so that `kill %1` means something.
    const shell = spawn("bash", ["-m"], { stdio: ["pipe", "pipe", "pipe"] });
    let output = "";
    shell.stdout.on("data", (chunk) => {
      output += chunk;
    });
    shell.on("close", (code) => resolve({ code, output }));
    shell.stdin.end(script);
  });
}

/** Pastes a tour against a server of its own. */
async function follow(file: string): Promise<{ output: string; statuses: number[] }> {
  const data = mkdtempSync(join(tmpdir(), "sluice-tour-"));
  const server = await createServer({ port: 0, data, log: false });
  try {
    const { output } = await paste(tour(file, server.url));
    const statuses = [...output.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => Number(match[1]));
    return { output, statuses };
  } finally {
    await server.close();
    rmSync(data, { recursive: true, force: true });
  }
}

test("the tour of the README works when pasted", async () => {
  const { output, statuses } = await follow("README.md");
  expect(statuses).toEqual([201, 204, 204, 200, 200, 204, 201, 201, 200, 204, 204, 200]);
  expect(output).toContain('[{"from":"ada","text":"hello"},{"from":"bob","text":"hi"}]');
  expect(output).toContain("event: data");
  // Alone, or with what was there before, if the append was quicker than the reader.
  expect(output).toMatch(/^data:\[.*\{"from":"ada","text":"still here\?"\}\]$/m);
  expect(output.match(/"payload":\{"from":"cy","text":"once"\}/g)).toHaveLength(1);
  expect(output).toContain('"path":"chat/room1-draft"');
  expect(output).toContain('[{"from":"di","text":"to all who follow"}]');
  expect(output).toMatch(/Stream-Closed: true/i);
  expect(output).not.toContain("problem+json");
});

/**
 * From the context on: that line changes what the commands after it talk to. Left out are commands that serve or need a stopped
 * server. Every command before has its row in `test/cli/commands.test.ts`.
 */
const ENDS = /^(?!.*\b(doctor|serve)\b)npx sluice (context|bench|config)/;

test("a remembered server and the example of a configuration file work in the order of the README", async () => {
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const blocks = ["## Command line", "## Configuration"].map((heading) => {
    const section = readme.slice(readme.indexOf(heading));
    return /```sh\n([\s\S]*?)```/.exec(section)![1]!;
  });
  const lines = blocks
    .join("\n")
    .split("\n")
    .filter((line) => ENDS.test(line));
  expect(lines.length).toBe(4);
  const bin = fileURLToPath(new URL("../../packages/server/bin/sluice.js", import.meta.url));
  const home = mkdtempSync(join(tmpdir(), "sluice-readme-"));
  const server = await createServer({ port: 0, memory: true, log: false });
  try {
    const { output } = await paste(
      [
        `cd ${fileURLToPath(new URL("../..", import.meta.url))}; export XDG_CONFIG_HOME=${home} SLUICE_URL=${server.url}`,
        `npx() { shift; node ${bin} "$@"; };`,
        ...lines.map(
          (line) =>
            `${line.replace("http://127.0.0.1:4437", server.url).replace("--seconds 5", "--count 20")}\necho "exit $?"`,
        ),
      ].join("\n"),
    );
    expect(output.match(/^exit \d+$/gm)).toEqual(lines.map(() => "exit 0"));
    expect(output).toMatch(/^ok$/m);
  } finally {
    await server.close();
    rmSync(home, { recursive: true, force: true });
  }
});

test("the configuration in every page of the manual is accepted", () => {
  const docs = new URL("../../docs/", import.meta.url);
  const blocks = readdirSync(docs).flatMap((file) => [
    ...readFileSync(new URL(file, docs), "utf8").matchAll(/```yaml\n([\s\S]*?)```/g),
  ]);
  expect(blocks.length).toBeGreaterThan(1);
  const dir = mkdtempSync(join(tmpdir(), "sluice-yaml-"));
  for (const [i, [, text]] of blocks.entries()) {
    const configFile = join(dir, `${i}.yaml`);
    writeFileSync(configFile, text!);
    expect(() => loadSettings({ flags: [], env: {}, configFile }, []), text).not.toThrow();
  }
  rmSync(dir, { recursive: true, force: true });
});

test("the tour of sessions works when pasted", async () => {
  const { output, statuses } = await follow("docs/sessions.md");
  expect(statuses).toEqual([201, 200, 201, 200, 204, 204, 200, 200, 204, 204]);
  expect(output.match(/"isNewSession":(true|false)/g)).toEqual(['"isNewSession":true', '"isNewSession":false']);
  expect(output.match(/^Stream-Fanout-(Count: 1|Successes: 1|Failures: 0|Mode: inline)\r$/gm)).toHaveLength(8);
  const inbox = output.split("\n").find((line) => line.startsWith("[{"))!;
  const [first, second] = JSON.parse(inbox.slice(0, inbox.indexOf("]") + 1));
  expect(first).toMatchObject({ stream: "notices/ada", payload: { text: "your parcel is here" } });
  expect(second).toMatchObject({ stream: "notices/all", payload: { text: "fire drill at eleven" } });
  expect(output).toMatch(/^data:\[.*"stream":"notices\/all".*"a plain append is copied too"\}\}\]$/m);
  expect(output).toMatch(/"subscriptions":\[\{"streamId":"notices\/ada".*"streamId":"notices\/all"/);
  expect(output).not.toContain("problem+json");
});
