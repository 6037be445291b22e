// Runs wrk against a server: 64 connections from one thread, one request in flight on each. The append scenarios use it for every
// HTTP server, with the same script and bodies, so that only the server differs. A reply other than 2xx is never counted as an
// append.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runToEnd } from "../child.ts";

const SCRIPT = new URL("append.lua", import.meta.url).pathname;
const CONNECTIONS = 64;

/** The posted bodies have one length, and body i goes to stream i modulo `streams`. */
export interface PostLoad {
  readonly streams: number;
  readonly contentType: string;
  readonly bodyFile: string;
  readonly bodyBytes: number;
  /** One of the bodies. */
  readonly sample: string;
  /** The bearer token, if the server requires one. */
  readonly token?: string | undefined;
}

/** The headers of a request of this load. */
export function headersOf({ contentType, token }: Pick<PostLoad, "contentType" | "token">): Record<string, string> {
  return { "Content-Type": contentType, ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }) };
}

export interface WrkResult {
  readonly accepted: number;
  readonly seconds: number;
  readonly refused: number;
  readonly broken: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export function preparePosts(
  directory: string,
  streams: number,
  contentType: string,
  bodies: readonly string[],
): PostLoad {
  const bodyBytes = Buffer.byteLength(bodies[0]!);
  if (bodies.some((body) => Buffer.byteLength(body) !== bodyBytes)) throw new Error("bodies must be of one length");
  const bodyFile = join(directory, "bodies");
  writeFileSync(bodyFile, bodies.join(""));
  return { streams, contentType, bodyFile, bodyBytes, sample: bodies[0]! };
}

export async function runWrk(url: URL, load: PostLoad, seconds: number): Promise<WrkResult> {
  const output = await runToEnd(
    "wrk",
    [
      ...["--threads", "1", "--connections", String(CONNECTIONS), "--duration", `${seconds}s`, "--timeout", "10s"],
      ...["--script", SCRIPT, url.origin, "--"],
      ...[
        String(load.streams),
        load.contentType,
        load.bodyFile,
        String(load.bodyBytes),
        ...(load.token ? [load.token] : []),
      ],
    ],
    (seconds + 30) * 1000,
  );
  const line = /^RESULT (.*)$/m.exec(output);
  if (!line) throw new Error(`wrk printed no result: ${output}`);
  const raw = JSON.parse(line[1]!) as Record<
    "requests" | "micros" | "refused" | "broken" | "p50Micros" | "p99Micros",
    number
  >;
  return {
    accepted: raw.requests - raw.refused,
    seconds: raw.micros / 1e6,
    refused: raw.refused,
    broken: raw.broken,
    p50Ms: raw.p50Micros / 1000,
    p99Ms: raw.p99Micros / 1000,
  };
}

/** GETs of one address; returns the answers per second. */
export async function runGets(url: URL, target: string, seconds: number): Promise<number> {
  const load = [
    "--threads",
    "1",
    "--connections",
    String(CONNECTIONS),
    "--duration",
    `${seconds}s`,
    "--timeout",
    "10s",
  ];
  const output = await runToEnd("wrk", [...load, new URL(target, url).href], (seconds + 30) * 1000);
  const rate = /^Requests\/sec:\s+([\d.]+)$/m.exec(output);
  if (!rate || /Non-2xx|Socket errors/.test(output)) throw new Error(`wrk had no clean run: ${output}`);
  return Number(rate[1]);
}
