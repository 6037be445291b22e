/** The tours of the README and of the manual, pasted as they stand into a shell: every command works and shows what the text promises. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "@sluice/server";
import { expect, test } from "vitest";

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
