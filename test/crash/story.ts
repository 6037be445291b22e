/**
 * The history of an entity and the states that may be found afterwards. The crash tests write entities by the rules of a story
 * and compare the found state with it: every acknowledged commit wholly, the one in doubt wholly or not at all.
 */
import { ZERO } from "@sluice/protocol";
import { type Effect, type Engine, EngineError, type Entity } from "../../packages/server/src/engine/contract.ts";

/** An entity as a reader can see it. The row `total` moves in the same commit as the log, so a half commit shows. */
export interface Seen {
  readonly exists: boolean;
  readonly messages: readonly string[];
  readonly rows: Readonly<Record<string, string>>;
}

export const NOTHING: Seen = { exists: false, messages: [], rows: {} };
const TABLE = "t";

/** Uniform in [0, limit). */
export type Dice = (limit: number) => number;

export interface Step {
  readonly effects: Effect[];
  readonly after: Seen;
}

export async function look(engine: Engine, e: Entity): Promise<Seen> {
  const { rev } = await engine.load(e, []);
  const messages: string[] = [];
  let after = ZERO;
  for (;;) {
    const page = await engine.read(e, after, 5_000);
    messages.push(...page.messages.map(({ payload }) => Buffer.from(payload).toString("latin1")));
    after = page.messages.at(-1)?.position ?? after;
    if (page.atTail) break;
  }
  const rows: Record<string, string> = {};
  for (const { key, value } of await engine.rows(e, TABLE, "", 1_000))
    rows[key] = Buffer.from(value).toString("latin1");
  return { exists: rev !== 0, messages, rows };
}

/** A possible next commit of the entity. `nextGeneration` is the engine's offer, `start` the number of trimmed messages. */
export function nextStep(
  seen: Seen,
  nextGeneration: number,
  head: { generation: number; startSeq: number },
  dice: Dice,
): Step {
  if (!seen.exists) return begin(NOTHING, nextGeneration, dice);
  const kind = dice(100);
  if (kind < 4) return { effects: [{ op: "destroy" }], after: NOTHING };
  if (kind < 7) return begin(seen, nextGeneration, dice);
  if (kind < 15 && seen.messages.length > 0) return trim(seen, head, dice);
  if (kind < 22) return rowsOnly(seen, dice);
  return append(seen, [], dice);
}

function begin(seen: Seen, generation: number, dice: Dice): Step {
  const effect: Effect = { op: "begin", generation, at: { generation, seq: 0 } };
  return append({ exists: true, messages: [], rows: seen.rows }, [effect], dice);
}

function append(seen: Seen, before: readonly Effect[], dice: Dice): Step {
  const count = 1 + dice(dice(10) === 0 ? 40 : 4);
  const total = Number(seen.rows.total ?? 0);
  const texts = Array.from({ length: count }, (_, i) => {
    const size = dice(40) === 0 ? 3_000 : dice(120);
    return `${total + i + 1}:${"abcdefgh".repeat(size / 8)}`;
  });
  const messages = texts.map((text, i) => ({ payload: Buffer.from(text, "latin1"), at: total + i }));
  const value = String(total + count);
  return {
    effects: [...before, { op: "append", messages }, put("total", value)],
    after: { exists: true, messages: [...seen.messages, ...texts], rows: sorted({ ...seen.rows, total: value }) },
  };
}

function trim(seen: Seen, head: { generation: number; startSeq: number }, dice: Dice): Step {
  const count = 1 + dice(seen.messages.length);
  const through = { generation: head.generation, seq: head.startSeq + count };
  return {
    effects: [{ op: "trim", through, bytes: 0 }],
    after: { ...seen, messages: seen.messages.slice(count) },
  };
}

function rowsOnly(seen: Seen, dice: Dice): Step {
  const key = `r${dice(6)}`;
  if (key in seen.rows && dice(2) === 0) {
    const { [key]: _dropped, ...rows } = seen.rows;
    return { effects: [{ op: "drop", table: TABLE, key }], after: { ...seen, rows } };
  }
  const value = "v".repeat(dice(200));
  return { effects: [put(key, value)], after: { ...seen, rows: sorted({ ...seen.rows, [key]: value }) } };
}

function put(key: string, value: string): Effect {
  return { op: "put", table: TABLE, key, value: Buffer.from(value, "latin1") };
}

function sorted(rows: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(rows).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Commits to one entity for ever and records its story. */
export class Storyteller {
  /** The acknowledged state. */
  known: Seen = NOTHING;
  /** The state after the commit whose outcome is unknown. */
  doubt: Seen | undefined;
  /** Set when an impossible state was seen. */
  wrong: string | undefined;
  highestRev = 0;

  constructor(
    readonly e: Entity,
    private readonly dice: Dice,
  ) {}

  /** Commits one after the other until the engine refuses them. */
  async tell(engine: Engine, pause: () => Promise<void>): Promise<void> {
    try {
      while (this.wrong === undefined) {
        await pause();
        await this.step(engine);
      }
    } catch (fault) {
      // Only a writer that stopped for good may end the story.
      if (!(fault instanceof EngineError) || fault.code !== "storage-failed")
        this.wrong = `${this.e.key}: ${String((fault as Error).stack ?? fault)}`;
    }
  }

  private async step(engine: Engine): Promise<void> {
    if (this.dice(4) === 0 && JSON.stringify(await look(engine, this.e)) !== JSON.stringify(this.known)) {
      throw new Error("a reader does not see what was acknowledged");
    }
    const { rev, head, nextGeneration } = await engine.load(this.e, []);
    const { effects, after } = nextStep(
      this.known,
      nextGeneration,
      { generation: head.generation, startSeq: head.start.seq },
      this.dice,
    );
    this.doubt = after;
    const result = await engine.commit(this.e, { rev }, effects).catch((fault: unknown) => {
      if (!(fault instanceof EngineError) || (fault.code !== "storage-full" && fault.code !== "overloaded"))
        throw fault;
      // Refused with certainty: no reader may ever see it.
      this.doubt = undefined;
      return undefined;
    });
    if (result === undefined) return;
    if (result.kind !== "done") throw new Error(`the only writer was answered ${result.kind}`);
    if (result.rev !== 0 && result.rev <= this.highestRev) throw new Error(`rev ${result.rev} came again`);
    this.highestRev = Math.max(this.highestRev, result.rev);
    this.known = after;
    this.doubt = undefined;
  }

  /** Compares the entity with its story and continues the story from there. */
  async check(engine: Engine): Promise<string | undefined> {
    if (this.wrong !== undefined) return this.wrong;
    const found = JSON.stringify(await look(engine, this.e));
    for (const possible of [this.known, this.doubt]) {
      if (possible === undefined || JSON.stringify(possible) !== found) continue;
      this.known = possible;
      this.doubt = undefined;
      return undefined;
    }
    const expected = JSON.stringify(this.known).slice(-300);
    const maybe = JSON.stringify(this.doubt)?.slice(-300);
    return `${this.e.key} is not as told.\n found ...${found.slice(-300)}\n known ...${expected}\n doubt ...${maybe}`;
  }
}
