/** The README's tour, pasted as it stands into a shell: every command works and shows what the text promises. */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "@sluice/server";
import { expect, test } from "vitest";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

function tour(url: string): string {
  const section = readme.slice(readme.indexOf("## A tour"), readme.indexOf("## Command line"));
  const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map((match) => match[1]);
  expect(blocks.length).toBeGreaterThan(3);
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

test("the tour of the README works when pasted", async () => {
  const data = mkdtempSync(join(tmpdir(), "sluice-tour-"));
  const server = await createServer({ port: 0, data, log: false });
  try {
    const { output } = await paste(tour(server.url));
    const statuses = [...output.matchAll(/HTTP\/1\.1 (\d+)/g)].map((match) => Number(match[1]));
    expect(statuses).toEqual([201, 204, 204, 200, 200, 204, 201, 201, 204, 200]);
    expect(output).toContain('[{"from":"ada","text":"hello"},{"from":"bob","text":"hi"}]');
    expect(output).toContain("event: data");
    // Alone, or with what was there before, if the append was quicker than the reader.
    expect(output).toMatch(/^data:\[.*\{"from":"ada","text":"still here\?"\}\]$/m);
    expect(output.match(/"payload":\{"from":"cy","text":"once"\}/g)).toHaveLength(1);
    expect(output).toContain('"path":"chat/room1-draft"');
    expect(output).toMatch(/Stream-Closed: true/i);
    expect(output).not.toContain("problem+json");
  } finally {
    await server.close();
    rmSync(data, { recursive: true, force: true });
  }
});
