/**
 * A failover to a replica that lags. Without waiting for replicas the end of a history is lost: the engine detects that, later
 * messages sort above it, and readers are told. With waiting, no acknowledged or shown message is lost.
 */
import { describe, expect, it } from "vitest";
import { eventually, sleep } from "../support/eventually.ts";
import type { RedisServer } from "../support/redis.ts";
import { Load } from "./load.ts";
import { failoverStage } from "./stage.ts";
import { keysOn, pair, takeOver } from "./take-over.ts";

const TIMEOUT_MS = 120_000;
const TEXT = { "Content-Type": "text/plain" };

const stage = failoverStage({ longPollMs: 60_000 });

async function append(url: string, text: string): Promise<string> {
  let offset = "";
  await eventually(async () => {
    const response = await fetch(url, { method: "POST", headers: TEXT, body: text });
    expect(response.status).toBe(204);
    offset = response.headers.get("stream-next-offset")!;
  }, 30_000);
  return offset;
}

/** A waiting reader, which asks again while no node answers. */
async function poll(url: string): Promise<Response> {
  for (;;) {
    const response = await fetch(url);
    if (response.status !== 503) return response;
    await sleep(100);
  }
}

/** A stream on this master, found among many names. */
async function streamOn(base: string, master: RedisServer): Promise<string> {
  for (let i = 0; i < 100; i++) {
    const before = await keysOn(master);
    const url = `${base}/v1/stream/s${i}`;
    expect((await fetch(url, { method: "PUT", headers: TEXT })).status).toBe(201);
    if ((await keysOn(master)) > before) return url;
  }
  throw new Error("no stream came to this master");
}

describe("without waiting for replicas", () => {
  it("a lost end is detected: later offsets sort above it, and readers are told where to continue", {
    timeout: TIMEOUT_MS,
  }, async () => {
    const base = await stage.serve(0);
    const { replica, master } = await pair(stage.cluster);
    const url = await streamOn(base, master);
    for (let i = 1; i <= 10; i++) await append(url, `kept ${i};`);
    const kept = (await fetch(url, { method: "HEAD" })).headers.get("stream-next-offset")!;
    await master.admin((redis) => redis.wait(1, 5_000));
    await replica.deafen();
    for (let i = 11; i < 15; i++) await append(url, `lost ${i};`);
    const seen = await append(url, "lost 15;");
    const waiting = poll(`${url}?offset=${seen}&live=long-poll`);
    await takeOver(master, replica);

    await eventually(async () => {
      const told = await fetch(`${url}?offset=${seen}`);
      expect(told.status).toBe(410);
      expect(await told.json()).toMatchObject({ code: "history-lost", retryable: false });
      expect(told.headers.get("stream-next-offset")).toBe(kept);
    }, 30_000);
    const later = await append(url, "new 11;");
    expect(later > seen).toBe(true);
    expect((await waiting).status).toBe(410);
    expect((await fetch(`${url}?offset=${seen}`)).status).toBe(410);
    expect(await (await fetch(`${url}?offset=${kept}`)).text()).toBe("new 11;");
    const whole = await (await fetch(`${url}?offset=-1`)).text();
    expect(whole).toBe(`${Array.from({ length: 10 }, (_, i) => `kept ${i + 1};`).join("")}new 11;`);
  });

  it("the load's check finds the lost messages", { timeout: TIMEOUT_MS }, async () => {
    expect((await loseATail(0)).join()).toMatch(/was acknowledged and is lost/);
  });
});

describe("with a replica waited for", () => {
  it("no acknowledged or shown message is lost, duplicated or out of order", { timeout: TIMEOUT_MS }, async () => {
    expect(await loseATail(1)).toEqual([]);
  });
});

/** Under load a replica receives nothing for a while and then takes over. */
async function loseATail(waitReplicas: number): Promise<string[]> {
  const urls = [await stage.serve(waitReplicas), await stage.serve(waitReplicas)];
  const load = new Load({ urls, streams: 12, prefix: "load", isLossExpected: waitReplicas === 0 });
  await load.start();
  await load.progress();
  const { replica, master } = await pair(stage.cluster);
  await replica.deafen();
  await sleep(1_500);
  await takeOver(master, replica);
  await master.start();
  await stage.cluster.settled();
  await load.progress(60_000);
  return load.findings();
}
