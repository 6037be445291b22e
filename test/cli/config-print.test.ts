import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { bundledBin } from "../support/server-bundle.ts";

test("config print --changed says so when every setting has its default", async () => {
  // Without the variables that other tests of commands set.
  const command = [bundledBin(), "config", "print", "--changed"];
  const said = await promisify(execFile)(process.execPath, command, { env: {} });
  expect(said).toEqual({ stdout: "", stderr: expect.stringContaining("every setting has its default") });
});
