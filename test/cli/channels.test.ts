/** How the channel commands end: errors, interruptions, malformed input, a server that goes away. */
import { createServer, type RunningServer } from "@sluice/server";
import { beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../e2e/server.ts";
import { dirForTest, serveInProcess, sluice, start } from "../support/sluice-process.ts";

let server: RunningServer;

beforeAll(async () => {
  server = await createServer({ port: 0, memory: true, log: false });
  return () => server.close();
});

const here = () => ({ env: { SLUICE_URL: server.url } });

describe("an error", () => {
  it.each([
    [
      "a channel that is not there",
      ["channel", "tail", "none"],
      3,
      /there is no channel none; --wait waits for its START/,
    ],
    [
      "a channel without a name",
      ["channel", "tail", ""],
      2,
      /the id of a channel must be a text that an address can express; got ""/,
    ],
    ["an unknown phase", ["channel", "publish", "c", "--phase", "STOP", "--sequence", "1"], 2, /START, DELTA, END/],
    ["a phase without its sequence", ["channel", "publish", "c", "--phase", "END"], 2, /--phase needs --sequence/],
    ["a negative sequence", ["channel", "publish", "c", "x", "--sequence", "-1"], 2, /--sequence must be a whole/],
    ["an id for many messages", ["channel", "publish", "c", "x", "--id", "m"], 2, /--id is for one message/],
    ["a start payload that is not JSON", ["channel", "publish", "c", "x", "--start", "{"], 2, /--start is not JSON/],
    [
      "a DELTA before its START",
      ["channel", "publish", "errors/early", "x", "--phase", "DELTA", "--sequence", "1"],
      5,
      /publish START first \(409 channel-not-started\)/,
    ],
  ])("is one line on standard error and an exit code: %s", async (_, args, code, says) => {
    const ended = await sluice(args, here());
    expect(ended.stderr).toMatch(says);
    expect(ended).toMatchObject({ code, stdout: "" });
    expect(ended.stderr).toMatch(/^sluice: .*\n$/);
  });
});

describe("a channel", () => {
  const phases = async (channel: string) => {
    const text = await (await fetch(`${server.url}/v1/default/channels/${channel}/events`)).text();
    return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!));
  };

  it("gets its END when its publisher is interrupted", async () => {
    const running = start(["channel", "publish", "interrupted"], here());
    running.child.stdin!.write("half an ans");
    await eventually(async () =>
      expect((await fetch(`${server.url}/v1/default/channels/interrupted/events`)).status).toBe(200),
    );
    running.child.kill("SIGINT");
    const ended = await running.ended;
    expect([ended.code, ended.stderr]).toEqual([1, expect.stringContaining("ERROR and its END")]);
    const seen = await phases("interrupted");
    expect(seen.map(({ phase }) => phase).filter((phase) => phase !== "DELTA")).toEqual(["START", "ERROR", "END"]);
  });

  it("that has ended refuses another answer, and another START before the command waits for input", async () => {
    expect(await sluice(["channel", "publish", "ended", "x"], here())).toMatchObject({ code: 0 });
    const another = await sluice(["channel", "publish", "ended", "y"], here());
    expect([another.code, another.stderr]).toEqual([5, expect.stringContaining("(409 channel-ended)")]);
    const running = start(["channel", "publish", "ended", "--sequence", "7"], here());
    const ended = await running.ended;
    expect([ended.code, ended.stderr]).toEqual([5, expect.stringContaining("(409 channel-")]);
  });

  it("gets an ERROR and its END when the input is malformed, after all messages before it", async () => {
    const ended = await sluice(["channel", "publish", "wrong", "--json"], { ...here(), stdin: "1\n2\n{\n4\n" });
    expect([ended.code, ended.stderr]).toEqual([1, expect.stringContaining("line 3 is not JSON")]);
    expect((await phases("wrong")).map(({ phase, payload }) => `${phase} ${JSON.stringify(payload)}`)).toEqual([
      "START null",
      "DELTA 1",
      "DELTA 2",
      expect.stringContaining("ERROR"),
      "END null",
    ]);
  });

  it("is published and followed over a restart of its server, without loss or repetition", async () => {
    const dir = dirForTest();
    let serving = await serveInProcess(["--data", dir]);
    const port = new URL(serving.url).port;
    const env = { SLUICE_URL: serving.url };
    const tail = start(["channel", "tail", "r", "--wait"], { env });
    const publisher = start(["channel", "publish", "r"], { env });
    publisher.child.stdin!.write("one ");
    await eventually(() => expect(tail.said.stdout).toBe("one "));
    serving.child.kill("SIGKILL");
    await serving.ended;
    publisher.child.stdin!.write("two ");
    await eventually(() => expect(publisher.said.stderr).toContain("trying again"));
    serving = await serveInProcess(["--data", dir, "--port", port]);
    publisher.child.stdin!.end("three");
    expect(await publisher.ended).toMatchObject({ code: 0 });
    expect(await tail.ended).toMatchObject({ code: 0, stdout: "one two three" });
  });
});
