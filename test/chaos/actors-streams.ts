/**
 * Actors that write streams of their own: single appends, batches, producers with epochs, trimmed streams, forks of forks,
 * streams that are deleted and made anew, and streams that are closed. Each knows what its streams must hold in the end.
 */
import type { Random } from "../sim/random.ts";
import { ExpectedLog } from "./expected-log.ts";
import type { Wire } from "./wire.ts";

/** One client of the run. `step` does one thing; `findings` compares at the end. */
export interface Actor {
  step(): Promise<void>;
  findings(): Promise<string[]>;
}

export type NewActor = (wire: Wire, random: Random, name: string) => Promise<Actor>;

export const JSON_TYPE = { "Content-Type": "application/json" };
const LARGE_BYTES = 20_000;

/** A stream with one writer. */
class Written {
  readonly expected: ExpectedLog;
  private count = 0;

  constructor(
    readonly wire: Wire,
    readonly path: string,
    expected = new ExpectedLog(),
  ) {
    this.expected = expected;
  }

  create(headers: Readonly<Record<string, string>> = {}): Promise<unknown> {
    return this.wire.must([200, 201], "PUT", `stream/${this.path}`, { headers: { ...JSON_TYPE, ...headers } });
  }

  /** Appends once. Returns the offset after it if it was acknowledged. */
  async append(messages: number, bytes = 0): Promise<string | undefined> {
    const texts = Array.from({ length: messages }, () => `${this.path} ${this.count++}`.padEnd(bytes, "."));
    const body = JSON.stringify(texts);
    const answer = await this.wire.ask("POST", `stream/${this.path}`, { headers: JSON_TYPE, body });
    // The body of a refused append was not stored.
    if (answer?.status === 503) return undefined;
    if (answer !== undefined && answer.status !== 204)
      throw new Error(`append to ${this.path}: ${answer.status} ${answer.text}`);
    this.expected.add(texts, answer !== undefined);
    return answer?.header("stream-next-offset") ?? undefined;
  }

  async findings(): Promise<string[]> {
    return this.expected.differences(this.path, await this.wire.log<string>(this.path));
  }
}

/** Single messages, batches and large messages. */
export const appender: NewActor = async (wire, random, name) => {
  const stream = new Written(wire, name);
  await stream.create();
  return {
    step: async () => {
      await stream.append(random.chance(0.3) ? random.between(2, 50) : 1, random.chance(0.05) ? LARGE_BYTES : 0);
    },
    findings: () => stream.findings(),
  };
};

/** Repeats what was not answered, and starts new epochs. A message of an older epoch must be refused. */
export const producer: NewActor = async (wire, random, name) => {
  const expected = new ExpectedLog();
  let epoch = 0;
  let seq = 0;
  const path = `stream/${name}`;
  await wire.must([200, 201], "PUT", path, { headers: JSON_TYPE });
  const send = (text: string, inEpoch: number, number: number) => {
    const numbers = { "Producer-Id": name, "Producer-Epoch": String(inEpoch), "Producer-Seq": String(number) };
    return { headers: { ...JSON_TYPE, ...numbers }, body: JSON.stringify(text) };
  };
  return {
    async step() {
      if (seq > 0 && random.chance(0.02)) [epoch, seq] = [epoch + 1, 0];
      const text = `${name} ${epoch}.${seq}`;
      await wire.must([200, 204], "POST", path, send(text, epoch, seq));
      expected.add([text], true);
      if (random.chance(0.2)) await wire.must([204], "POST", path, send(text, epoch, seq));
      if (epoch > 0 && random.chance(0.1)) await wire.must([403], "POST", path, send("stale", epoch - 1, 1_000_000));
      seq++;
    },
    findings: async () => expected.differences(name, await wire.log<string>(name)),
  };
};

const KEPT = 20;

/** A stream that keeps its last messages. */
export const trimmed: NewActor = async (wire, random, name) => {
  const stream = new Written(wire, name);
  await stream.create({ "Stream-Max-Messages": String(KEPT) });
  return {
    step: async () => void (await stream.append(random.between(1, 5))),
    findings: async () => stream.expected.differencesAtEnd(name, await wire.log<string>(name), KEPT),
  };
};

const MAX_FORKS = 12;

interface Branch {
  readonly stream: Written;
  /** Offsets at which a fork knows exactly what it inherits. */
  readonly points: { readonly offset: string; readonly length: number }[];
}

/** Forks of forks, while their sources are written and deleted. */
export const forker: NewActor = async (wire, random, name) => {
  let born = 0;
  const grown = (stream: Written): Branch => ({ stream, points: [] });
  const root = new Written(wire, `${name}/0`);
  await root.create();
  const branches = [grown(root)];
  return {
    async step() {
      const branch = random.pick(branches);
      const { stream, points } = branch;
      const kind = random.weighted({ append: 10, fork: 2, delete: 1 });
      if (kind === "append") {
        const offset = await stream.append(random.between(1, 3));
        if (offset !== undefined) points.push({ offset, length: stream.expected.length });
      } else if (kind === "fork" && points.length > 0 && branches.length < MAX_FORKS) {
        const { offset, length } = random.pick(points);
        const fork = new Written(wire, `${name}/${++born}`, stream.expected.upTo(length));
        await fork.create({ "Stream-Forked-From": stream.path, "Stream-Fork-Offset": offset });
        branches.push(grown(fork));
      } else if (kind === "delete" && branches.length > 1) {
        // 404 and 410: an earlier attempt did it.
        await wire.must([204, 404, 410], "DELETE", `stream/${stream.path}`);
        branches.splice(branches.indexOf(branch), 1);
        await wire.must([404, 410], "GET", `stream/${stream.path}?offset=-1`);
      }
    },
    async findings() {
      return (await Promise.all(branches.map(({ stream }) => stream.findings()))).flat();
    },
  };
};

/** Deletes a stream and makes another at its path, which must not show anything of the first. */
export const recreator: NewActor = async (wire, random, name) => {
  let life = 0;
  let stream = new Written(wire, name);
  await stream.create();
  return {
    async step() {
      if (!random.chance(0.1)) return void (await stream.append(random.between(1, 3)));
      await wire.must([204, 404], "DELETE", `stream/${name}`);
      await wire.must([404], "GET", `stream/${name}?offset=-1`);
      stream = new Written(wire, name);
      const first = `life ${++life}`;
      await wire.must([200, 201], "PUT", `stream/${name}`, { headers: JSON_TYPE, body: JSON.stringify([first]) });
      stream.expected.add([first], true);
    },
    findings: () => stream.findings(),
  };
};

const MAX_CLOSED = 10;

/** Streams that are closed, and must stay as they were then. */
export const closer: NewActor = async (wire, random, name) => {
  const closed: Written[] = [];
  let born = 0;
  const next = async () => {
    const stream = new Written(wire, `${name}/${++born}`);
    await stream.create();
    return stream;
  };
  let open = await next();
  return {
    async step() {
      if (!random.chance(0.15)) return void (await open.append(random.between(1, 3)));
      await wire.must([204], "POST", `stream/${open.path}`, { headers: { "Stream-Closed": "true" } });
      const late = { headers: JSON_TYPE, body: '"late"' };
      await wire.must([409], "POST", `stream/${open.path}`, late);
      closed.push(open);
      if (closed.length > MAX_CLOSED) closed.shift();
      open = await next();
    },
    async findings() {
      return (await Promise.all([...closed, open].map((stream) => stream.findings()))).flat();
    },
  };
};
