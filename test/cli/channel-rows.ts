/**
 * The rows of channels in the table of commands; commands.test.ts runs them.
 *
 * Invariants: each row does what the command's help says, against a real server.
 */
import { expect } from "vitest";
import { eventually } from "../e2e/server.ts";
import { type Ended, sluice, start } from "../support/sluice-process.ts";

const OFFSET = /^\d{16}_\d{16}\n$/;

type Ok = (args: readonly string[], stdin?: string) => Promise<Ended>;

/** The events of a channel that has ended. */
async function eventsOf(url: string, channel: string): Promise<string[]> {
  const text = await (await fetch(`${url}/v1/default/channels/${encodeURIComponent(channel)}/events`)).text();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => {
    const { phase, payload } = JSON.parse(data!);
    return `${phase} ${JSON.stringify(payload)}`;
  });
}

export const channelRows = (url: () => string, ok: Ok): Readonly<Record<string, () => Promise<void>>> => ({
  async "channel publish"() {
    expect((await ok(["channel", "publish", "said/a", "Hällo 🌍"])).stdout).toMatch(OFFSET);
    expect(await eventsOf(url(), "said/a")).toEqual(["START null", 'DELTA "Hällo 🌍"', "END null"]);
    // Standard input becomes text, at any size and with cuts anywhere.
    const long = "🌍ä".repeat(9_000);
    expect((await ok(["channel", "publish", "said/long"], long)).stdout).toMatch(OFFSET);
    const deltas = (await eventsOf(url(), "said/long")).slice(1, -1);
    expect(deltas.map((text) => JSON.parse(text.slice("DELTA ".length))).join("")).toBe(long);
    await ok(["channel", "publish", "said/lines", "--lines", "--end", "[1]"], "a\r\n\nb");
    expect(await eventsOf(url(), "said/lines")).toEqual(["START null", 'DELTA "a"', 'DELTA "b"', "END [1]"]);
    await ok(["channel", "publish", "said/json", "--json", "--start", '{"model":"m"}'], '{"t":1}\n\n["x"]\n');
    expect(await eventsOf(url(), "said/json")).toEqual([
      'START {"model":"m"}',
      'DELTA {"t":1}',
      'DELTA ["x"]',
      "END null",
    ]);
    // Message by message; a repeated message adds nothing.
    const step = (phase: string, sequence: number, ...more: string[]) =>
      ok(["channel", "publish", "said/steps", ...more, "--phase", phase, "--sequence", String(sequence)]);
    await step("start", 5);
    const first = await step("DELTA", 6, "Hel", "--id", "m1");
    expect((await step("DELTA", 6, "Hel", "--id", "m1")).stdout).toBe(first.stdout);
    await step("ERROR", 7, '{"why":1}', "--json");
    await step("END", 8);
    expect(await eventsOf(url(), "said/steps")).toEqual(["START null", 'DELTA "Hel"', 'ERROR {"why":1}', "END null"]);
  },

  async "channel stop"() {
    const publisher = start(["channel", "publish", "stop/a"], { env: { SLUICE_URL: url() } });
    publisher.child.stdin!.write("half an ans");
    const events = `${url()}/v1/default/channels/${encodeURIComponent("stop/a")}/events`;
    await eventually(async () => expect((await fetch(events)).status).toBe(200));
    expect((await ok(["channel", "stop", "stop/a", "--reason", "enough"])).stdout).toBe("asked stop/a to stop\n");
    expect(await publisher.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(OFFSET) });
    expect(publisher.said.stderr).toContain("a reader has asked to stop");
    const phases = await eventsOf(url(), "stop/a");
    expect([phases.at(0), phases.at(-1)]).toEqual(["START null", "END null"]);
    expect(await sluice(["channel", "stop", "stop/a"], { env: { SLUICE_URL: url() } })).toMatchObject({ code: 5 });
  },

  async "channel tail"() {
    await ok(["channel", "publish", "tail/a", "--json"], '"Hel"\n"lo"\n{"tool":1}\n');
    expect((await ok(["channel", "tail", "tail/a"])).stdout).toBe('Hello{"tool":1}\n');
    expect((await ok(["channel", "tail", "tail/a", "--lines"])).stdout).toBe('Hel\nlo\n{"tool":1}\n');
    const events = (await ok(["channel", "tail", "tail/a", "--json"])).stdout.trim().split("\n");
    expect(events.map((text) => JSON.parse(text).phase)).toEqual(["START", "DELTA", "DELTA", "DELTA", "END"]);
    const { offset, ...second } = JSON.parse(events[1]!);
    expect(second).toMatchObject({ event: "stream", channelId: "tail/a", sequence: 1, payload: "Hel" });
    expect((await ok(["channel", "tail", "tail/a", "--from", offset])).stdout).toBe('lo{"tool":1}\n');
    expect((await ok(["channel", "tail", "tail/a", "--limit", "2"])).stdout).toBe("Hel");
    // The command waits for a channel that does not exist yet, and follows it while it grows.
    const tail = start(["channel", "tail", "tail/late", "--wait"], { env: { SLUICE_URL: url() } });
    const publisher = start(["channel", "publish", "tail/late"], { env: { SLUICE_URL: url() } });
    publisher.child.stdin!.write("one ");
    await eventually(() => expect(tail.said.stdout).toBe("one "));
    publisher.child.stdin!.end("two");
    expect(await publisher.ended).toMatchObject({ code: 0 });
    expect(await tail.ended).toMatchObject({ code: 0, stdout: "one two", stderr: "" });
  },
});
