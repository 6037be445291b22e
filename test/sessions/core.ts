/**
 * What stands between fan-out and the streams it copies into, in tests: it notes every call, and makes those late, failing or
 * finding nothing that the test says.
 */
import { EngineError } from "../../packages/server/src/engine/contract.ts";
import type { Copy } from "../../packages/server/src/sessions/copy.ts";
import type { Addressed } from "../../packages/server/src/sessions/session-rules.ts";
import type { StreamPort } from "../../packages/server/src/sessions/stream-port.ts";

/** Besides those of the core: the steps of a stream's registry, where a server lets the test stand in their way. */
export type Method = keyof StreamPort | "addSubscriber" | "removeSubscribers";

export interface Call {
  readonly method: Method;
  readonly project: string;
  /** The session, or for `follow` the stream. */
  readonly id: string;
  readonly stream?: string | undefined;
  readonly copy?: Copy | undefined;
  readonly to?: Addressed | undefined;
}

/**
 * `refused`: nothing is done, and it fails. `lost`: it is done, and fails. `stale`: the session is not found. `stuck`: nothing is
 * done or heard of it before the test lets it go on. `unanswered`: it is done, and nothing is heard of it before that.
 */
export type Fate = "refused" | "lost" | "stale" | "stuck" | "unanswered";

export class FaultyCore implements StreamPort {
  readonly calls: Call[] = [];
  /** Calls that have not been answered, and the most that there were at once. */
  readonly underWay = new Set<Call>();
  atOnce = 0;
  /** What becomes of a call; undefined: what should. */
  fate: (call: Call) => Fate | undefined = () => undefined;
  private stuck: { readonly call: Call; readonly go: () => void }[] = [];
  private local!: StreamPort;

  /** For `buildApp`. */
  readonly streamPortOf = (local: StreamPort): StreamPort => {
    this.local = local;
    return this;
  };

  follow(...args: Parameters<StreamPort["follow"]>): ReturnType<StreamPort["follow"]> {
    const [project, id] = args;
    return this.meet({ method: "follow", project, id, stream: id }, () => this.local.follow(...args));
  }

  join(...args: Parameters<StreamPort["join"]>): ReturnType<StreamPort["join"]> {
    const [project, id, { stream }] = args;
    return this.meet({ method: "join", project, id, stream }, () => this.local.join(...args));
  }

  deliver(...args: Parameters<StreamPort["deliver"]>): ReturnType<StreamPort["deliver"]> {
    const [project, id, copy, to] = args;
    const call: Call = { method: "deliver", project, id, stream: copy.stream, copy, to };
    return this.meet(call, () => this.local.deliver(...args), { kind: "stale", borrows: false });
  }

  remove(...args: Parameters<StreamPort["remove"]>): ReturnType<StreamPort["remove"]> {
    const [project, id] = args;
    return this.meet({ method: "remove", project, id }, () => this.local.remove(...args));
  }

  get pending(): number {
    return this.underWay.size;
  }

  /** Calls that are neither answered nor stuck: they take the time that the machine takes for them. */
  get working(): number {
    return this.underWay.size - this.stuck.length;
  }

  /** The copies that were asked for since this was asked last. */
  posts(): Call[] {
    return this.calls.splice(0).filter(({ method }) => method === "deliver");
  }

  /** What is stuck goes on, and does what it was asked for. */
  release(isMeant: (call: Call) => boolean = () => true): void {
    const going = this.stuck.filter(({ call }) => isMeant(call));
    this.stuck = this.stuck.filter((one) => !going.includes(one));
    for (const { go } of going) go();
  }

  async meet<T>(call: Call, work: () => Promise<T>, notFound?: T): Promise<T> {
    this.calls.push(call);
    this.underWay.add(call);
    this.atOnce = Math.max(this.atOnce, this.pending);
    try {
      const fate = this.fate(call);
      if (fate === "refused") throw new EngineError("unavailable", "refused, says the test");
      if (fate === "stale" && notFound !== undefined) return notFound;
      if (fate === "stuck") await this.released(call);
      const result = await work();
      if (fate === "unanswered") await this.released(call);
      if (fate === "lost") throw new EngineError("unavailable", "the answer was lost, says the test");
      return result;
    } finally {
      this.underWay.delete(call);
    }
  }

  private released(call: Call): Promise<void> {
    return new Promise((go) => this.stuck.push({ call, go }));
  }
}
