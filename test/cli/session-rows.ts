/**
 * The rows of sessions and of `publish` in the table of commands; commands.test.ts and sessions.test.ts run them.
 *
 * Invariants: each row does what the command's help says, against a real server.
 */
import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { eventually } from "../e2e/server.ts";
import { type Ended, start } from "../support/sluice-process.ts";

const OFFSET = /^\d{16}_\d{16}\n$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$/;
const MISSING_SESSION = "11111111-2222-3333-4444-555555555555";

type Ok = (args: readonly string[], stdin?: string) => Promise<Ended>;

export const sessionRows = (url: () => string, ok: Ok): Readonly<Record<string, () => Promise<void>>> => {
  const create = async (path: string, type = "application/json") => {
    const response = await fetch(`${url()}/v1/stream/${path}`, { method: "PUT", headers: { "Content-Type": type } });
    expect(response.status).toBe(201);
  };
  const publish = async (path: string, body: string, type = "application/json") => {
    const init = { method: "POST", headers: { "Content-Type": type }, body };
    expect((await fetch(`${url()}/v1/default/publish/${path}`, init)).status).toBe(204);
  };
  const inbox = async (session: string) =>
    await (await fetch(`${url()}/v1/stream/session:${session.trim()}?offset=-1`)).text();
  const infoOf = async (session: string) =>
    (await (await fetch(`${url()}/v1/default/session/${session.trim()}`)).json()) as {
      expiresAt: number;
      subscriptions: { streamId: string; format: string }[];
    };
  const subscribed = async (...args: string[]) => (await ok(["session", "subscribe", ...args])).stdout.trim();

  return {
    async "session subscribe"() {
      for (const path of ["sub/a", "sub/b", "sub/old"]) await create(path);
      await create("sub/text", "text/plain");
      const { stdout, stderr } = await ok(["session", "subscribe", "sub/a", "sub/b"]);
      expect([stdout, stderr]).toEqual([expect.stringMatching(UUID), ""]);
      await publish("sub/b", "1");
      await publish("sub/a", "2");
      expect(await inbox(stdout)).toBe("[1,2]");
      // Another session, with its content, under an id in capitals.
      await publish("sub/old", '["old","older"]');
      const again = await ok([
        "session",
        "subscribe",
        "sub/old",
        "-s",
        stdout.trim().toUpperCase(),
        "--from",
        "beginning",
      ]);
      expect(again.stdout).toBe(stdout);
      await eventually(async () => expect(await inbox(stdout)).toBe('[1,2,"old","older"]'));
      const own = randomUUID();
      const answers = await ok(["session", "subscribe", "sub/text", "sub/a", "--envelope", "--json", "--session", own]);
      const [first, second] = answers.stdout.trim().split("\n");
      expect(JSON.parse(first!)).toMatchObject({ sessionId: own, streamId: "sub/text", isNewSession: true });
      expect(JSON.parse(second!)).toMatchObject({ streamId: "sub/a", isNewSession: false });
      expect((await infoOf(own)).subscriptions.map(({ format }) => format)).toEqual(["envelope", "envelope"]);
    },

    async "session unsubscribe"() {
      for (const path of ["unsub/a", "unsub/b", "unsub/c"]) await create(path);
      const session = await subscribed("unsub/a", "unsub/b", "unsub/c");
      await publish("unsub/a", "1");
      const { stdout } = await ok(["session", "unsubscribe", session, "unsub/a", "unsub/b"]);
      expect(stdout).toBe("unsubscribed unsub/a\nunsubscribed unsub/b\n");
      for (const path of ["unsub/a", "unsub/b", "unsub/c"]) await publish(path, `"${path}"`);
      expect(await inbox(session)).toBe('[1,"unsub/c"]');
      await ok(["session", "unsubscribe", session, "unsub/a"]);
    },

    async "session info"() {
      await create("about/a");
      await create("about/b", "text/plain");
      const session = await subscribed("about/a", "about/b", "--envelope");
      const { stdout } = await ok(["session", "info", session]);
      expect(stdout).toMatch(new RegExp(`^sessionId +${session}\n`));
      expect(stdout).toMatch(/^expiresAt +\d{4}-\d\d-\d\dT.*Z$/m);
      expect(stdout).toMatch(/^STREAM +SINCE +FORMAT +MISSED\nabout\/a +\d{4}\S+Z +envelope +-\nabout\/b /m);
      const json = JSON.parse((await ok(["session", "info", session.toUpperCase(), "--json"])).stdout);
      expect(json).toEqual(await infoOf(session));
      await ok(["session", "unsubscribe", session, "about/a", "about/b"]);
      expect((await ok(["session", "info", session])).stdout).toContain("it follows no stream\n");
    },

    async "session touch"() {
      await create("touch/a");
      const session = await subscribed("touch/a");
      const before = (await infoOf(session)).expiresAt;
      const { stdout } = await ok(["session", "touch", session]);
      expect(Date.parse(stdout.trim())).toBeGreaterThan(before);
      const touched = JSON.parse((await ok(["session", "touch", session, "--json"])).stdout);
      expect(touched).toEqual({ sessionId: session, expiresAt: (await infoOf(session)).expiresAt });
    },

    async "session rm"() {
      await create("end/a");
      const [one, two] = [await subscribed("end/a"), await subscribed("end/a")];
      expect((await ok(["session", "rm", one, two])).stdout).toBe(`deleted ${one}\ndeleted ${two}\n`);
      for (const id of [one, two]) expect((await fetch(`${url()}/v1/default/session/${id}`)).status).toBe(404);
    },

    async "session tail"() {
      await create("follow/a");
      await create("follow/text", "text/plain");
      const session = await subscribed("follow/a", "follow/text", "--envelope");
      await publish("follow/a", '[12345678901234567890,{"b":\n2}]');
      const tail = start(["session", "tail", session], { env: { SLUICE_URL: url() } });
      await eventually(() => expect(tail.said.stdout.split("\n")).toHaveLength(3));
      await publish("follow/text", "häl\r\nlo", "text/plain");
      await eventually(() => expect(tail.said.stdout.split("\n")).toHaveLength(4));
      tail.child.kill("SIGINT");
      const { code, stdout, stderr } = await tail.ended;
      expect([code, stderr]).toEqual([0, ""]);
      const lines = stdout.trim().split("\n");
      // Numbers of any size keep their digits.
      expect(lines[0]).toMatch(/^\{"stream":"follow\/a","offset":"\d.*"payload":12345678901234567890\}$/);
      expect(JSON.parse(lines[1]!)).toMatchObject({ stream: "follow/a", payload: { b: 2 } });
      expect(JSON.parse(lines[2]!)).toMatchObject({ stream: "follow/text", payload: "häl\r\nlo" });
      expect((await ok(["session", "tail", session, "--limit", "1"])).stdout).toBe(`${lines[0]}\n`);
      const enveloped = (await ok(["session", "tail", session, "--envelope", "--limit", "2"])).stdout.trim();
      const { offset } = JSON.parse(enveloped.split("\n")[1]!);
      expect((await ok(["session", "tail", session, "--from", offset, "--limit", "1"])).stdout).toBe(`${lines[2]}\n`);
      // A session of text, as published or line by line.
      const plain = await subscribed("follow/text", "--from", "beginning");
      await publish("follow/text", "two", "text/plain");
      expect((await ok(["session", "tail", plain, "--limit", "2"])).stdout).toBe("häl\r\nlotwo");
      expect((await ok(["session", "tail", plain, "--lines", "--limit", "2"])).stdout).toBe("häl\r\nlo\ntwo\n");
    },

    async publish() {
      await create("pub/a");
      const alone = await ok(["publish", "pub/a", '{"n":1}']);
      expect([alone.stdout, alone.stderr]).toEqual([
        expect.stringMatching(OFFSET),
        "sluice: no session follows this stream\n",
      ]);
      const session = await subscribed("pub/a");
      expect((await ok(["publish", "pub/a"], '{"n":2}')).stderr).toBe("sluice: copied to 1 of 1 session (inline)\n");
      const told = await ok(["publish", "pub/a", "--lines", "--json"], '{"n":3}\r\n\n[4]\n');
      const answers = told.stdout.trim().split("\n");
      expect(answers.map((text) => JSON.parse(text))).toEqual(
        [1, 2].map(() => ({ offset: expect.any(String), mode: "inline", count: 1, successes: 1, failures: 0 })),
      );
      // The report is the same for each stream, so it is printed once.
      const many = await ok(["publish", "pub/a", "--lines"], "5\n6\n7\n");
      expect([many.stdout, many.stderr.split("\n")]).toEqual([expect.stringMatching(OFFSET), expect.any(Array)]);
      expect(many.stderr).toBe("sluice: copied to 1 of 1 session (inline)\n");
      expect(await inbox(session)).toBe('[{"n":2},{"n":3},[4],5,6,7]');
      await create("pub/text", "text/plain");
      await ok(["publish", "pub/text", "hi", "-H", "Message-Id: i"]);
      expect(await (await fetch(`${url()}/v1/stream/pub/text`)).text()).toBe("hi");
    },
  };
};

/** The refusals of the session commands: arguments, exit code and message. */
export const SESSION_REFUSALS: readonly (readonly [string, readonly string[], number, RegExp])[] = [
  ["an info with a malformed id", ["session", "info", "ada"], 2, /the id of a session is a UUID.*not "ada"/],
  ["a tail with an empty id", ["session", "tail", ""], 2, /the id of a session is a UUID/],
  ["a malformed id among several", ["session", "rm", MISSING_SESSION, "x"], 2, /the id of a session is a UUID/],
  [
    "the info of a missing session",
    ["session", "info", MISSING_SESSION],
    3,
    /there is no session 1111.*\(404 session-not-found\)/,
  ],
  ["a tail of a missing session", ["session", "tail", MISSING_SESSION], 3, /there is no session 1111/],
  ["a touch of a missing session", ["session", "touch", MISSING_SESSION], 3, /there is no session 1111/],
  ["a delete of a missing session", ["session", "rm", MISSING_SESSION], 3, /there is no session 1111/],
  [
    "an unsubscribe from a missing session",
    ["session", "unsubscribe", MISSING_SESSION, "a"],
    3,
    /there is no session 1111/,
  ],
  ["a subscribe to a missing stream", ["session", "subscribe", "none"], 3, /there is no stream none/],
  [
    "a subscribe to the stream of a session",
    ["session", "subscribe", `session:${MISSING_SESSION}`],
    4,
    /session:.* reserved/,
  ],
  [
    "a subscribe to a malformed path",
    ["session", "subscribe", "a b"],
    1,
    /streamId must be a stream's path of letters/,
  ],
  [
    "one offset for two streams",
    ["session", "subscribe", "a", "b", "--from", `${"0".repeat(16)}_${"0".repeat(16)}`],
    2,
    /--from takes one with a single stream/,
  ],
  ["a publish to a missing stream", ["publish", "none", "x"], 3, /there is no stream none/],
  ["a publish of an empty message", ["publish", "none", "", "--type", "text/plain"], 2, /a message cannot be empty/],
  ["a publish of a message and of lines", ["publish", "none", "x", "--lines"], 2, /--lines reads standard input/],
];
