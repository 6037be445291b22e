/**
 * The rows of groups in the table of commands; commands.test.ts runs them.
 *
 * Invariants: each row does what the command's help says, against a real server.
 */
import { expect } from "vitest";
import { eventually } from "../e2e/server.ts";
import { type Ended, start } from "../support/sluice-process.ts";

type Ok = (args: readonly string[], stdin?: string) => Promise<Ended>;

export const groupRows = (url: () => string, ok: Ok): Readonly<Record<string, () => Promise<void>>> => {
  const json = { "Content-Type": "application/json" };
  const create = (path: string) => fetch(`${url()}/v1/stream/${path}`, { method: "PUT", headers: json });
  const append = (path: string, ...values: unknown[]) =>
    fetch(`${url()}/v1/stream/${path}`, { method: "POST", headers: json, body: JSON.stringify(values) });
  const declare = (name: string, body: object) =>
    fetch(`${url()}/v1/groups/${name}`, { method: "PUT", body: JSON.stringify({ mode: "share", ...body }) });
  const infoOf = async (name: string) =>
    (await (await fetch(`${url()}/v1/groups/${name}`)).json()) as { readonly lag: number };

  return {
    async "group ls"() {
      await declare("listed", { filter: "listed/#" });
      expect((await ok(["group", "ls"])).stdout).toMatch(/^GROUP +MODE +FILTER\n(.*\n)*listed +share +listed\/#\n/);
      const lines = (await ok(["group", "ls", "--json"])).stdout.trim().split("\n");
      expect(lines.map((text) => JSON.parse(text))).toContainEqual({
        group: "listed",
        mode: "share",
        filter: "listed/#",
      });
    },

    async "group info"() {
      await create("seen/a");
      await declare("seen", { filter: "seen/+", from: "earliest" });
      await append("seen/a", 1, 2);
      const { stdout } = await ok(["group", "info", "seen"]);
      expect(stdout).toMatch(/^group +seen\nmode +share\nfilter +seen\/\+\n/);
      expect(stdout).toContain("no member consumes it");
      await ok(["group", "consume", "seen", "seen/+", "--member", "m", "--limit", "1"]);
      const [named, other] = ["share", "queue"].map((mode) => ["group", "info", "seen", "--mode", mode, "--json"]);
      expect(JSON.parse((await ok(named!)).stdout)).toMatchObject({ group: "seen", lag: 1 });
      await expect(ok(other!)).rejects.toThrow(/group-not-found/);
    },

    async "group consume"() {
      await Promise.all(["taken/a", "taken/b"].map(create));
      const env = { SLUICE_URL: url() };
      const args = ["group", "consume", "taken", "taken/#", "--member", "w1", "--from", "earliest"];
      const member = start(args, { env });
      await eventually(() => expect(member.said.stderr).toMatch(/joined the group.*\n(.*\n)*.*granted taken\/b\n/));
      await append("taken/a", { n: 1 });
      await append("taken/b", "häl\x1blo");
      await eventually(() => expect(member.said.stdout.split("\n")).toHaveLength(3));
      member.child.kill("SIGINT");
      const { code, stdout, stderr } = await member.ended;
      expect([code, stdout.trim().split("\n").sort()]).toEqual([0, ['taken/a  {"n":1}', "taken/b  häl\ufffdlo"]]);
      expect(stderr).toMatch(/sluice: 2 messages acknowledged\n$/);
      expect((await infoOf("taken")).lag).toBe(0);
      // A command per message: what it takes is acknowledged, what it refuses comes again.
      await declare("run", { filter: "taken/a", mode: "queue", from: "earliest" });
      const command = 'read x; echo "$SLUICE_STREAM $x $SLUICE_ATTEMPT"; test $SLUICE_ATTEMPT = 2';
      const ran = await ok(["group", "consume", "run", "taken/a", "--queue", "--limit", "2", "--exec", command]);
      expect(ran.stderr).toMatch(/the command failed for taken\/a \S+ \(exit code 1\); it is delivered again\n/);
      expect((await infoOf("run")).lag).toBe(0);
      const shown = await ok(["group", "consume", "again", "taken/a", "--from", "earliest", "--limit", "1", "--json"]);
      expect(JSON.parse(shown.stdout)).toMatchObject({ stream: "taken/a", value: { n: 1 } });
    },

    async "group seek"() {
      await create("moved");
      await append("moved", 1, 2, 3);
      await declare("moved", { filter: "moved" });
      await ok(["group", "seek", "moved", "2020-01-31T12:00Z"]);
      const { stdout } = await ok(["group", "consume", "moved", "moved", "--limit", "3"]);
      expect(stdout).toBe("moved  1\nmoved  2\nmoved  3\n");
    },

    async "group redrive"() {
      await Promise.all(["sent", "sent-dead"].map(create));
      const dead = { maxAttempts: 1, deadLetter: "sent-dead" };
      await declare("sent", { filter: "sent", mode: "queue", from: "earliest", ...dead });
      await append("sent", 1);
      await ok(["group", "consume", "sent", "sent", "--queue", "--limit", "1", "--exec", "false"]);
      await eventually(async () => expect((await infoOf("sent")).lag).toBe(0));
      expect((await ok(["group", "redrive", "sent"])).stdout).toBe("1 message put back for sent\n");
      expect((await ok(["group", "redrive", "sent", "--json"])).stdout).toBe('{"redriven":0,"stayed":0}\n');
      const { stdout } = await ok(["group", "consume", "sent", "sent", "--queue", "--limit", "1"]);
      expect(stdout).toBe("sent  1\n");
    },

    async "group rm"() {
      await declare("gone", { filter: "gone" });
      expect((await ok(["group", "rm", "gone"])).stdout).toBe("removed gone\n");
      expect((await fetch(`${url()}/v1/groups/gone`)).status).toBe(404);
    },
  };
};
