/**
 * What stands between fan-out and the streams it copies into, in tests: it notes every call, and makes those late, failing or
 * finding nothing that the test says.
 */
import { EngineError } from "../../packages/server/src/engine/contract.ts";
import type { Copy } from "../../packages/server/src/sessions/copy.ts";
import type { CoreService, ProducerHeaders } from "../../packages/server/src/sessions/core-service.ts";
import type { Addressed } from "../../packages/server/src/sessions/session-rules.ts";

export type Method = keyof CoreService;

export interface Call {
  readonly method: Method;
  readonly project: string;
  /** The session, or for `headStream` the stream. */
  readonly id: string;
  readonly copy?: Copy | undefined;
  readonly to?: Addressed | undefined;
  readonly producer?: ProducerHeaders | undefined;
}

/**
 * `refused`: nothing is done, and it fails. `lost`: it is done, and fails. `stale`: the session is not found. `stuck`: nothing is
 * heard of it before the test lets it go on.
 */
export type Fate = "refused" | "lost" | "stale" | "stuck";

export class FaultyCore implements CoreService {
  readonly calls: Call[] = [];
  /** Calls that have not been answered, and the most that there were at once. */
  pending = 0;
  atOnce = 0;
  /** What becomes of a call; undefined: what should. */
  fate: (call: Call) => Fate | undefined = () => undefined;
  private stuck: (() => void)[] = [];
  private local!: CoreService;

  /** For `buildApp`. */
  readonly coreOf = (local: CoreService): CoreService => {
    this.local = local;
    return this;
  };

  headStream(...args: Parameters<CoreService["headStream"]>): ReturnType<CoreService["headStream"]> {
    const [project, id] = args;
    return this.meet({ method: "headStream", project, id }, () => this.local.headStream(...args));
  }

  putStream(...args: Parameters<CoreService["putStream"]>): ReturnType<CoreService["putStream"]> {
    const [project, id] = args;
    return this.meet({ method: "putStream", project, id }, () => this.local.putStream(...args));
  }

  postStream(...args: Parameters<CoreService["postStream"]>): ReturnType<CoreService["postStream"]> {
    const [project, id, copy, to, producer] = args;
    const call: Call = { method: "postStream", project, id, copy, to, producer };
    return this.meet(call, () => this.local.postStream(...args), { kind: "stale", borrows: false });
  }

  deleteStream(...args: Parameters<CoreService["deleteStream"]>): ReturnType<CoreService["deleteStream"]> {
    const [project, id] = args;
    return this.meet({ method: "deleteStream", project, id }, () => this.local.deleteStream(...args));
  }

  /** The copies that were asked for since this was asked last. */
  posts(): Call[] {
    return this.calls.splice(0).filter(({ method }) => method === "postStream");
  }

  /** What is stuck goes on, and does what it was asked for. */
  release(): void {
    for (const go of this.stuck.splice(0)) go();
  }

  private async meet<T>(call: Call, work: () => Promise<T>, notFound?: T): Promise<T> {
    this.calls.push(call);
    this.pending++;
    this.atOnce = Math.max(this.atOnce, this.pending);
    try {
      const fate = this.fate(call);
      if (fate === "refused") throw new EngineError("unavailable", "refused, says the test");
      if (fate === "stale" && notFound !== undefined) return notFound;
      if (fate === "stuck") await new Promise<void>((resolve) => this.stuck.push(resolve));
      const result = await work();
      if (fate === "lost") throw new EngineError("unavailable", "the answer was lost, says the test");
      return result;
    } finally {
      this.pending--;
    }
  }
}
