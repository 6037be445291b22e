/** A real server on disk that is killed again and again while it copies: every inbox holds what it is owed, in order and once. */
import { expect, it } from "vitest";
import { eventually, sleep } from "../support/eventually.ts";
import { dirForTest, serveInProcess } from "../support/sluice-process.ts";
import { SessionLoad } from "./load.ts";

/** Each life of the server copies in another way. The last life, which is not killed, copies as it does by default. */
const LIVES: readonly (readonly string[])[] = [
  ...(process.env.SLUICE_DEEP === "1" ? [[]] : []),
  ["fanout.queueThreshold=2", "internal.fanout.queueBatch=2"],
  ["fanout.queue=false", "fanout.maxInline=1"],
  ["internal.fanout.roundBytes=1", "internal.fanout.batch=1"],
];

it("after every kill, inboxes are caught up from the logs, without a gap and without a repetition", async () => {
  const data = dirForTest();
  let url: string | undefined;
  const urls = () => (url === undefined ? [] : [url]);
  const load = new SessionLoad({ urls, streams: ["a", "b"], publishers: 2, staying: 4, restless: 3 });
  const serve = async (settings: readonly string[]) => {
    const flags = ["internal.fanout.retryMs=50", "internal.fanout.maxRetryMs=500", ...settings].flatMap((setting) => [
      "--set",
      setting,
    ]);
    const running = await serveInProcess(["--data", data, ...flags]);
    url = running.url;
    return running;
  };
  for (const [life, settings] of LIVES.entries()) {
    const { child, ended } = await serve(settings);
    if (life === 0) await load.start();
    await load.progress(40);
    await sleep(Math.random() * 100);
    url = undefined;
    child.kill("SIGKILL");
    await ended;
  }
  await serve([]);
  await load.progress(40);
  await load.stop();
  await eventually(async () => expect(await load.findings()).toEqual([]), 30_000);
}, 120_000);
