/**
 * A running server for one test, on the engine the test asks for, and the few calls that most tests make of it. Whatever is
 * opened here is closed when the test or the suite that opened it ends. A fault that the server reports, or a warning, fails the test:
 * nothing that a client does may reach the server's log as a fault.
 */
import { createServer, type RunningServer, type ServerOptions } from "@sluice/server";
import { afterAll, describe, expect, onTestFinished } from "vitest";
import { temporaryDir } from "../support/disk.ts";
import { eventually } from "../support/eventually.ts";
import { sharedRedis } from "../support/shared-redis.ts";

export { eventually, sleep } from "../support/eventually.ts";

export type EngineName = "memory" | "disk" | "redis";

export interface Fixture {
  readonly server: RunningServer;
  readonly url: string;
  readonly port: number;
  /** What the server has reported; checked to be empty at the end. */
  readonly reports: string[];
  close(): Promise<void>;
}

/** The same behaviours on every engine. */
export function describeOnEngines(name: string, body: (engine: EngineName) => void): void {
  describeOn(["memory", "disk", "redis"], name, body);
}

/** Behaviors of the door or the client, which no engine can change; the deep run shows them on every engine. */
export function describeOnMemory(name: string, body: (engine: EngineName) => void): void {
  if (process.env.SLUICE_DEEP === "1") describeOnEngines(name, body);
  else describeOn(["memory"], name, body);
}

/** The same behaviours on every engine that outlives its process. */
export function describeOnStores(name: string, body: (engine: EngineName) => void): void {
  describeOn(["disk", "redis"], name, body);
}

/** What a process that is killed leaves to the next one. The deep run shows it on every engine that outlives its process. */
export function describeOnDisk(name: string, body: (engine: EngineName) => void): void {
  if (process.env.SLUICE_DEEP === "1") describeOnStores(name, body);
  else describeOn(["disk"], name, body);
}

/**
 * The same behaviours where one process has the data alone and where nodes share it. A feature cannot tell more of its engine
 * (`engine/other-nodes.ts`), and the contract suite shows that engines of a kind agree.
 */
export function describeAloneAndShared(name: string, body: (engine: EngineName) => void): void {
  describeOn(["memory", "redis"], name, body);
}

function describeOn(engines: readonly EngineName[], name: string, body: (engine: EngineName) => void): void {
  for (const engine of engines) describe(`${name} (${engine})`, () => body(engine));
}

export async function openServer(engine: EngineName, options: ServerOptions = {}): Promise<Fixture> {
  const reports: string[] = [];
  const report = (what: string, fault: unknown) => void reports.push(`${what}: ${(fault as Error).stack ?? fault}`);
  const directory = engine === "disk" ? temporaryDir() : undefined;
  const place = engine === "redis" ? { redis: sharedRedis() } : directory ? { data: directory.dir } : { memory: true };
  const warn = (warning: Error) => void reports.push(`a warning: ${warning.stack}`);
  process.on("warning", warn);
  // The deep run repeats the suites of the HTTP door without the lane.
  const http = { lane: process.env.SLUICE_LANE !== "off", ...options.http };
  const server = await createServer({ port: 0, ...place, drainMs: 2_000, log: false, report, ...options, http });
  let closing: Promise<void> | undefined;
  const close = async () => {
    await server.close();
    directory?.remove();
    process.off("warning", warn);
    expect(reports).toEqual([]);
  };
  return { server, url: server.url, port: server.port, reports, close: () => (closing ??= close()) };
}

/** For one test. */
export async function serverForTest(engine: EngineName, options: ServerOptions = {}): Promise<Fixture> {
  const fixture = await openServer(engine, options);
  onTestFinished(() => fixture.close());
  return fixture;
}

/** Shared by the tests of a suite: call it in the body of a describe, inside a beforeAll. */
export function closeAfterSuite(fixture: () => Fixture): void {
  afterAll(() => fixture().close());
}

type HeaderBag = Record<string, string>;
type Payload = NonNullable<RequestInit["body"]>;

export function create(url: string, headers: HeaderBag = {}, body?: Payload): Promise<Response> {
  return fetch(url, { method: "PUT", headers, ...(body === undefined ? {} : { body }) });
}

export function append(url: string, contentType: string, body: Payload, headers: HeaderBag = {}): Promise<Response> {
  return fetch(url, { method: "POST", headers: { "Content-Type": contentType, ...headers }, body });
}

/** Creates a stream that must not exist yet, and returns its URL. */
export async function createdStream(
  fixture: Pick<Fixture, "url">,
  path: string,
  contentType: string,
  headers: HeaderBag = {},
): Promise<string> {
  const url = `${fixture.url}/v1/stream/${path}`;
  const response = await create(url, { "Content-Type": contentType, ...headers });
  expect(response.status, await response.text()).toBe(201);
  return url;
}

/** Appends and returns the offset after the last message of the body. */
export async function appended(
  url: string,
  contentType: string,
  body: Payload,
  headers: HeaderBag = {},
): Promise<string> {
  const response = await append(url, contentType, body, headers);
  expect([200, 204], await response.text()).toContain(response.status);
  return response.headers.get("stream-next-offset")!;
}

/** Every live reader has left, and with it what the server kept for it. */
export function nobodyIsLeft({ server }: Fixture, withinMs?: number): Promise<void> {
  return eventually(() => {
    const { readers, watchedStreams } = server.tail;
    expect({ readers, watchedStreams }).toEqual({ readers: 0, watchedStreams: 0 });
  }, withinMs);
}

/** Rejects, saying what was waited for, instead of letting the test run into its own limit. */
export function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what}: nothing within ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
