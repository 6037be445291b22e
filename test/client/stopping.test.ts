/** The stop button: `channel.stop()` anywhere aborts the publisher's signal, whatever the publisher does meanwhile. */
import { createServer, type RunningServer } from "@sluice/server";
import { expect, onTestFinished, test } from "vitest";
import { eventually, serverForTest, within } from "../e2e/server.ts";
import { temporaryDir } from "../support/disk.ts";
import { noUnhandledRejections, openClient } from "./open-client.ts";

const aborted = (signal: AbortSignal) =>
  within(
    20_000,
    "the abort",
    new Promise<unknown>((resolve) => signal.addEventListener("abort", () => resolve(signal.reason))),
  );

test("a stop aborts the signal of a publisher that publishes nothing; END is the publisher's; a second stop is too late", async () => {
  noUnhandledRejections();
  const { url, server } = await serverForTest("memory");
  const publisher = openClient(url).channel("a").publisher();
  const stopped = aborted(publisher.signal);
  await publisher.write("Half");
  await publisher.flush();
  const elsewhere = openClient(url).channel("a");
  const events = (async () => {
    const names: string[] = [];
    for await (const { event } of elsewhere.events()) names.push(event);
    return names;
  })();
  expect(await elsewhere.stop({ reason: "enough" })).toBe(true);
  expect(await stopped).toMatchObject({ code: "stopped", message: "enough" });
  await publisher.write(" more");
  await publisher.end();
  expect(await elsewhere.text()).toBe("Half more");
  expect((await events).filter((name) => name === "stop")).toEqual(["stop"]);
  expect(await elsewhere.stop()).toBe(false);
  await expect(openClient(url).channel("none").stop()).rejects.toMatchObject({ code: "channel-not-found" });
  await eventually(() => expect(server.tail.readers).toBe(0));
});

test("the answer to a publish tells of a stop too, to a publisher that does not listen", async () => {
  const { url } = await serverForTest("memory");
  const channel = openClient(url).channel("a");
  const publisher = channel.publisher();
  await publisher.flush();
  await channel.stop();
  expect(await channel.publish({ phase: "DELTA", sequence: 1 })).toMatchObject({ stop: {} });
  await publisher.end().catch(() => {});
});

test("a stop reaches the publisher over a restart of the server, whether it comes before or after", async () => {
  noUnhandledRejections();
  const { dir, remove } = temporaryDir();
  const open = (port: number) => createServer({ port, data: dir, drainMs: 500, log: false });
  let server: RunningServer = await open(0);
  onTestFinished(async () => {
    await server.close();
    remove();
  });
  const { url, port } = server;
  const restart = async () => {
    await server.close();
    server = await open(port);
  };
  const publishers = ["before", "after"].map((id) => openClient(url).channel(id).publisher());
  await Promise.all(publishers.map((publisher) => publisher.flush()));
  await openClient(url).channel("before").stop();
  const listening = aborted(publishers[1]!.signal);
  await restart();
  expect(await aborted(publishers[0]!.signal)).toMatchObject({ code: "stopped" });
  await openClient(url).channel("after").stop();
  expect(await listening).toMatchObject({ code: "stopped" });
  await Promise.all(publishers.map((publisher) => publisher.end()));
});
