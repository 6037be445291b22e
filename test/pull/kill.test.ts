/** Pull on a server process that is killed: what was confirmed never comes again, what was not always does. */
import { expect, it, onTestFinished } from "vitest";
import { describeOnDisk, eventually } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { sharedRedis } from "../support/shared-redis.ts";
import { serveInProcess } from "../support/sluice-process.ts";
import { PullClient, textsOf } from "./pull-client.ts";

const MESSAGES = 400;
const KILLS = 1;

describeOnDisk("Pull", (engine) => {
  it("never delivers a confirmed message again after a kill, and always the others", async () => {
    const directory = temporaryDir();
    onTestFinished(directory.remove);
    const place = engine === "redis" ? ["--redis", sharedRedis().urls.join(",")] : ["--data", directory.dir];
    const name = `kill-${engine}`;
    const acks: Acks = { tried: new Set(), confirmed: new Set() };
    const all = Array.from({ length: MESSAGES }, (_, i) => String(i));
    for (let kill = 0; kill <= KILLS; kill++) {
      const { child, url, ended } = await serveInProcess(place);
      const client = await PullClient.open(url);
      if (kill === 0) {
        await client.done("createTopic", { topic: name });
        await client.done("create", { subscription: name, topic: name, ackDeadlineMs: 600_000 });
        await client.publish(name, ...all);
      }
      const before = { tried: new Set(acks.tried), confirmed: new Set(acks.confirmed) };
      ackSome(client, name, acks, kill === KILLS);
      await client.done("open", { stream: "1", subscription: name });
      if (kill < KILLS) {
        await eventually(() => expect(acks.confirmed.size).toBeGreaterThan(before.confirmed.size + 50));
        child.kill("SIGKILL");
        await ended;
      } else {
        // An acknowledgement whose answer the kill has taken may be stored or not.
        await eventually(() => {
          const delivered = new Set(client.delivered);
          expect(all.filter((text) => !before.tried.has(text) && !delivered.has(text))).toEqual([]);
          expect(all.filter((text) => !acks.confirmed.has(text) && !before.tried.has(text))).toEqual([]);
        });
      }
      expect(client.delivered.filter((text) => before.confirmed.has(text))).toEqual([]);
    }
  });
});

interface Acks {
  /** Messages whose acknowledgement was sent, and those whose acknowledgement was confirmed. */
  readonly tried: Set<string>;
  readonly confirmed: Set<string>;
}

/** Acknowledges every other message by itself, or all of them. */
function ackSome(client: PullClient, subscription: string, { tried, confirmed }: Acks, isAll: boolean): void {
  let count = 0;
  client.socket.on("message", (data) => {
    const frame = JSON.parse(data.toString());
    if (frame.type !== "messages") return;
    for (const message of frame.messages) {
      if (!isAll && count++ % 2 === 0) continue;
      const [text] = textsOf([message]);
      tried.add(text!);
      client.ask("ack", { subscription, ackIds: [message.ackId] }).then(
        (answer) => {
          if (answer.type === "ok" && (answer.outcomes as string[])[0] === "done") confirmed.add(text!);
        },
        () => {},
      );
    }
  });
}
