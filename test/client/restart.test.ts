import { createServer, type RunningServer } from "@sluice/server";
import { expect, onTestFinished, test } from "vitest";
import { within } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { TcpProxy } from "../support/tcp-proxy.ts";
import { noUnhandledRejections, numbersTo, openClient, valuesOf } from "./open-client.ts";

const PATIENCE_MS = 25_000;

async function restartable(): Promise<{ url: string; port: number; restart: () => Promise<void> }> {
  const { dir, remove } = temporaryDir();
  const open = (port: number) =>
    createServer({ port, data: dir, drainMs: 500, log: { level: "silent" }, report: () => {} });
  let server: RunningServer = await open(0);
  const { url, port } = server;
  onTestFinished(async () => {
    await server.close();
    remove();
  });
  const restart = async () => {
    await server.close();
    server = await open(port);
  };
  return { url, port, restart };
}

test("a server that restarts during appends and reads loses, repeats and reorders nothing", async () => {
  noUnhandledRejections();
  const server = await restartable();
  const writer = openClient(server.url).stream<number>("restarted");
  await writer.create();
  const reading = (["sse", "long-poll"] as const).map((live) =>
    valuesOf(openClient(server.url).stream<number>("restarted"), { live }),
  );
  const total = 3_000;
  let isWriting = true;
  let restarts = 0;
  const restarting = (async () => {
    for (; restarts < 3 && isWriting; restarts++) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      await server.restart();
    }
  })();
  for (const n of numbersTo(total)) {
    void writer.append(n);
    if (n % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await within(PATIENCE_MS, "the last acknowledgement", writer.flush());
  isWriting = false;
  await restarting;
  expect(restarts).toBeGreaterThan(0);
  await writer.close();
  for (const values of reading) {
    expect(await within(PATIENCE_MS, "the end of the stream", values)).toEqual(numbersTo(total));
  }
});

test("lost answers and cut connections, without a restart, lose and repeat nothing either", async () => {
  noUnhandledRejections();
  const server = await restartable();
  const proxy = await TcpProxy.open(0, server.port);
  onTestFinished(() => proxy.close());
  const url = `http://127.0.0.1:${proxy.port}`;
  const options = { timeoutMs: 250, append: { batchMessages: 10 } };
  const writer = openClient(url, options).stream<number>("cut");
  await writer.create();
  const reading = valuesOf(openClient(url, options).stream<number>("cut"), { live: true, silenceMs: 400 });
  const troubles = [() => proxy.swallowAnswers(), () => proxy.cut(), () => server.restart()];
  let isWriting = true;
  const troubling = (async () => {
    for (let i = 0; i < 6; i++) {
      await troubles[i % troubles.length]!();
      await new Promise((resolve) => setTimeout(resolve, 300));
      proxy.heal();
      await new Promise((resolve) => setTimeout(resolve, 100));
      if (!isWriting) return;
    }
  })();
  for (const n of numbersTo(1_000)) {
    void writer.append(n);
    if (n % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await within(PATIENCE_MS, "the last acknowledgement", writer.flush());
  isWriting = false;
  await troubling;
  await writer.close();
  expect(await within(PATIENCE_MS, "the end of the stream", reading)).toEqual(numbersTo(1_000));
});
