/** `npm start`: which command its arguments select. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { cleanEnv } from "../support/sluice-process.ts";

describe("npm start", () => {
  const run = async (...args: string[]) => {
    const script = fileURLToPath(new URL("../../scripts/start.mjs", import.meta.url));
    const child = spawn(process.execPath, [script, ...args], { env: cleanEnv(), stdio: "pipe" });
    let said = "";
    for (const output of [child.stdout, child.stderr]) output.on("data", (chunk) => (said += chunk));
    const code = await new Promise((resolve) => child.on("close", resolve));
    return [code, said];
  };

  it("runs the command that is named first, whatever its name, and serves when a flag comes first", async () => {
    expect(await run("strem", "ls")).toEqual([2, expect.stringContaining("unknown command 'strem'")]);
    expect(await run("--version")).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/)]);
    expect(await run("--prot", "80")).toEqual([2, expect.stringContaining("did you mean --port?")]);
  }, 120_000);
});
