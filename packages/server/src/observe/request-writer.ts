/**
 * Writes the JSON line of a plain response. It runs for every request, so it keeps the bytes of the line before and changes only
 * those that differ. The log makes one.
 *
 *     {"level":"info","time":…,"id":"  ID  ","method":…,"route":…,"project":…,"status":…,"ms":  1.234  ,"msg":"request"}
 *     '-------- beginning ---------'       '--------------------- middle --------------------'       '------ end -----'
 *
 * Invariants: the line is the one that `JSON.stringify` would make, except that the milliseconds always have three decimals.
 */
import type { World } from "../core/world.ts";
import type { LineBuffer } from "./line-buffer.ts";
import { type Identified, MAX_ID_BYTES, type RequestIds } from "./request-ids.ts";

const END = Buffer.from(',"msg":"request"}\n');
const ZERO = 0x30;
const POINT = 0x2e;
/** The most bytes of a number of milliseconds. */
const MAX_MS_BYTES = 24;
const MAX_BEGINNING_BYTES = 64;

export class RequestWriter {
  /** The line before, up to the end of `lineBytes`. */
  private line = Buffer.alloc(0);
  private lineBytes = this.line;
  private idAt = 0;
  private middle = this.line;
  /** Where the middle and the end of the line are; 0 if they must be written. */
  private middleAt = 0;
  private endAt = 0;
  private time = -1;
  private method = "";
  private route = "";
  private project: string | undefined = undefined;
  private status = 0;

  constructor(
    private readonly buffer: LineBuffer,
    private readonly world: Pick<World, "now">,
    private readonly ids: RequestIds,
  ) {}

  write(
    request: Identified,
    method: string,
    route: string,
    project: string | undefined,
    status: number,
    ms: number,
  ): void {
    const time = this.world.now();
    const isAlike =
      status === this.status && route === this.route && method === this.method && project === this.project;
    if (!isAlike) this.describe(method, route, project, status);
    if (!isAlike || time !== this.time) this.begin(time);
    const middleAt = this.ids.write(request, this.line, this.idAt);
    if (middleAt !== this.middleAt) this.moveMiddle(middleAt);
    const endAt = writeMilliseconds(ms, this.line, middleAt + this.middle.length);
    if (endAt !== this.endAt) this.moveEnd(endAt);
    this.buffer.addBytes(this.lineBytes);
  }

  private describe(method: string, route: string, project: string | undefined, status: number): void {
    const ofProject = project === undefined ? "" : `,"project":${JSON.stringify(project)}`;
    const ofRoute = `"method":"${method}","route":${JSON.stringify(route)}`;
    this.middle = Buffer.from(`",${ofRoute}${ofProject},"status":${status},"ms":`);
    const most = MAX_BEGINNING_BYTES + MAX_ID_BYTES + this.middle.length + MAX_MS_BYTES + END.length;
    if (this.line.length < most) this.line = Buffer.allocUnsafeSlow(2 * most);
    this.method = method;
    this.route = route;
    this.project = project;
    this.status = status;
  }

  private begin(time: number): void {
    this.idAt = this.line.write(`{"level":"info","time":${time},"id":"`, "latin1");
    this.middleAt = 0;
    this.time = time;
  }

  private moveMiddle(at: number): void {
    this.line.set(this.middle, at);
    this.middleAt = at;
    this.endAt = 0;
  }

  private moveEnd(at: number): void {
    this.line.set(END, at);
    this.endAt = at;
    this.lineBytes = this.line.subarray(0, at + END.length);
  }
}

/** Whole numbers and three decimals; returns where they end. */
function writeMilliseconds(ms: number, bytes: Buffer, at: number): number {
  const micros = Math.round(ms * 1_000);
  let rest = micros;
  let end = at + 5;
  for (let beyond = 10_000; beyond <= micros; beyond *= 10) end++;
  for (let i = end - 1; i >= at; i--) {
    if (i === end - 4) {
      bytes[i] = POINT;
      continue;
    }
    const higher = Math.floor(rest / 10);
    bytes[i] = ZERO + rest - 10 * higher;
    rest = higher;
  }
  return end;
}
