/**
 * The rows of listings, wake subscriptions, `status` and `completion` in the table of commands; commands.test.ts runs them.
 *
 * Invariants: each row does what the command's help says, against a real server.
 */
import { execFileSync } from "node:child_process";
import { expect } from "vitest";
import { type Ended, sluice, start } from "../support/sluice-process.ts";

type Ok = (args: readonly string[], stdin?: string) => Promise<Ended>;

const ID = "00000000-0000-4000-8000-00000000000a";

export const listingRows = (url: () => string, ok: Ok): Readonly<Record<string, () => Promise<void>>> => ({
  async "session ls"() {
    await ok(["stream", "create", "listed/s"]);
    await ok(["session", "subscribe", "listed/s", "--session", ID]);
    expect((await ok(["session", "ls"])).stdout).toMatch(new RegExp(`^${ID} +\\S+Z +1$`, "m"));
    const json = (await ok(["session", "ls", "--json"])).stdout.trim().split("\n");
    expect(json.map((text) => JSON.parse(text).sessionId)).toContain(ID);
  },

  async "channel ls"() {
    await ok(["channel", "publish", "listed/c", "x"]);
    expect((await ok(["channel", "ls"])).stdout).toMatch(/^listed\/c +END +2 +3 +\S+Z$/m);
    const limited = await ok(["channel", "ls", "--json", "--limit", "1"]);
    expect(JSON.parse(limited.stdout)).toMatchObject({ messages: expect.any(Number) });
  },

  async "wake create"() {
    await ok(["stream", "create", "wakes/a", "--type", "application/json"]);
    const args = ["wake", "create", "w/1", "--pattern", "orders/*", "--wake-stream", "wakes/a", "--lease", "20s"];
    expect((await ok(args)).stdout).toBe("created w/1 (pull-wake)\n");
    const got = await fetch(`${url()}/v1/default/stream/__ds/subscriptions/${encodeURIComponent("w/1")}`);
    expect(await got.json()).toMatchObject({ pattern: "orders/*", wake_stream: "wakes/a", lease_ttl_ms: 20_000 });
    for (const wrong of [["x"], ["x", "a", "--webhook", "https://a.example", "--wake-stream", "b"]]) {
      expect(await sluice(["wake", "create", ...wrong], { env: { SLUICE_URL: url() } })).toMatchObject({ code: 2 });
    }
  },

  async "wake ls"() {
    await ok(["stream", "create", "wakes/b", "--type", "application/json"]);
    await ok(["wake", "create", "listed", "--pattern", "listed/*", "--wake-stream", "wakes/b"]);
    expect((await ok(["wake", "ls"])).stdout).toMatch(/^listed +pull-wake +\S+ +0 +listed\/\* +wakes\/b$/m);
  },

  async "wake tail"() {
    await ok(["stream", "create", "tailed/a", "--type", "application/json"]);
    await ok(["wake", "create", "tailed", "tailed/a", "--wake-stream", "wakes/c"]);
    const tail = start(["wake", "tail", "tailed", "--from", "beginning", "--limit", "1"], {
      env: { SLUICE_URL: url() },
    });
    await ok(["stream", "append", "tailed/a", "{}"]);
    const { code, stdout } = await tail.ended;
    expect([code, JSON.stringify(JSON.parse(stdout))]).toEqual([0, expect.stringContaining("tailed/a")]);
  },

  async "wake rm"() {
    await ok(["stream", "create", "wakes/d", "--type", "application/json"]);
    await ok(["wake", "create", "gone", "--pattern", "gone/*", "--wake-stream", "wakes/d"]);
    expect((await ok(["wake", "rm", "gone"])).stdout).toBe("deleted gone\n");
    expect((await fetch(`${url()}/v1/default/stream/__ds/subscriptions/gone`)).status).toBe(404);
  },

  async status() {
    const { stdout } = await ok(["status"]);
    expect(stdout).toMatch(/^ready +ready$/m);
    expect(stdout).toMatch(/^version +\d+\.\d+\.\d+/m);
    const known = JSON.parse((await ok(["status", "--json"])).stdout);
    expect(known).toMatchObject({ url: url(), ready: true, project: "default", engine: "memory" });
    expect(known).toMatchObject({
      streams: expect.any(Number),
      channels: expect.any(Number),
      wakes: expect.any(Number),
    });
    expect(await sluice(["status", "--url", "http://127.0.0.1:2"])).toMatchObject({ code: 6, stdout: "" });
  },

  async completion() {
    const { stdout: script } = await ok(["completion", "bash"]);
    const complete = (words: readonly string[]) => {
      const run = `${script}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})\nCOMP_CWORD=${words.length - 1}\n_sluice\necho "\${COMPREPLY[@]}"`;
      return execFileSync("bash", ["-c", run], { encoding: "utf8" }).trim().split(" ");
    };
    expect(complete(["sluice", "chan"])).toEqual(["channel"]);
    expect(complete(["sluice", "stream", "ta"])).toEqual(["tail"]);
    expect(complete(["sluice", "stream", "tail", "a", "--la"])).toEqual(["--last"]);
    expect(complete(["sluice", "status", "--js"])).toEqual(["--json"]);
    expect((await ok(["completion", "zsh"])).stdout).toContain("bashcompinit");
    expect((await ok(["completion", "fish"])).stdout).toMatch(/^complete -c sluice -n '.*stream.*' -a tail -d '/m);
    expect(await sluice(["completion", "tcsh"])).toMatchObject({ code: 2 });
  },
});
