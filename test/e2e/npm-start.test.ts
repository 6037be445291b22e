/**
 * `npm start` under signals, in a process group of its own as a terminal would have it: whatever is ended, npm alone or the whole
 * group, the server drains and nothing is left running.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { cleanEnv } from "../support/sluice-process.ts";
import { RawConnection } from "./raw-http.ts";
import { eventually } from "./server.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

test.each([
  ["SIGTERM to npm alone", "SIGTERM", 1],
  // Npm passes on what it gets, so the server gets it twice.
  ["Ctrl-C, which reaches the whole group", "SIGINT", -1],
  ["SIGTERM to the whole group", "SIGTERM", -1],
] as const)(
  "%s drains the server and leaves nothing behind",
  async (_, signal, whom) => {
    const npm = spawn("npm", ["start", "--", "--memory", "--port", "0"], {
      cwd: root,
      env: cleanEnv(),
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    onTestFinished(() => {
      try {
        process.kill(-npm.pid!, "SIGKILL");
      } catch {
        // All of it is gone, as it should be.
      }
    });
    let stdout = "";
    let stderr = "";
    npm.stdout.on("data", (chunk) => {
      stdout += chunk;
    });
    npm.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    // Both ends of the pipes are closed: nobody who could write to them is left.
    const ended = new Promise<number | null>((resolve) => npm.on("close", (code) => resolve(code)));
    let url = "";
    await eventually(() => {
      url = /^sluice ready (\S+)$/m.exec(stdout)?.[1] ?? "";
      expect(url, stderr).not.toBe("");
    }, 60_000);
    // What is in flight is finished, also after the second of two signals.
    const upload = await RawConnection.open(Number(new URL(url).port));
    upload.send(
      "PUT /v1/stream/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nab",
    );
    await fetch(`${url}/health`);
    process.kill(whom * npm.pid!, signal);
    await eventually(() => expect(stderr).toContain('"msg":"draining"'));
    await new Promise((resolve) => setTimeout(resolve, 300));
    upload.send("cd");
    expect(await upload.answer("PUT")).toMatchObject({ status: 201 });
    await ended;
    expect(stderr).toContain('"msg":"stopped"');
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  },
  120_000,
);
