/**
 * The requests of one simulated tab, and the connection that it holds open. `SimTab` uses it; every answer goes into the story of
 * the run.
 *
 * Invariants: a request without an answer may still reach the server later.
 */
import type { Stage } from "../../scenario.ts";
import { SseParser } from "../streams/sse.ts";
import type { Ledger } from "./ledger.ts";

const PATIENCE_MS = 3_000;

/** An event of the connection, with the fields that some of them have. */
export interface Push {
  readonly type: string;
  readonly streamId: string;
  readonly offset: string;
  readonly payload: string;
  readonly epoch: number;
}

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the tab reads what the documentation says is there.
  readonly body: any;
  readonly header: (name: string) => string | undefined;
}

export interface Connection {
  leave(): void;
  /** Resolves when it is over, with whether the server knows no such session. */
  readonly over: Promise<boolean>;
}

export class Requests {
  constructor(
    readonly name: string,
    readonly stage: Stage,
    private readonly ledger: Ledger,
  ) {}

  /** Undefined without an answer, and for one that leaves the outcome unknown. */
  async ask(method: string, path: string, body?: object, search = ""): Promise<Reply | undefined> {
    const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const spec = { method, path: `/v1/${path}`, search, body: bytes };
    const answer = await this.stage.network.request(spec, PATIENCE_MS);
    const text = answer.kind === "reply" ? Buffer.from(answer.body).toString() : "";
    const how = answer.kind === "reply" ? `${answer.head.status} ${text.slice(0, 160)}` : answer.kind;
    this.say(`${method} ${path} ${search} ${bytes ?? ""} -> ${how}`);
    if (answer.kind !== "reply" || answer.head.status >= 500) return undefined;
    const { head } = answer;
    return {
      status: head.status,
      body: text === "" ? undefined : JSON.parse(text),
      header: (name) => head.header(name),
    };
  }

  say(what: string): void {
    const line = `+${this.stage.world.elapsedMs} ${this.name} ${what}`;
    this.ledger.note(line);
    this.stage.world.log?.(`  ${line}`);
  }

  pause(): Promise<void> {
    return this.stage.world.sleep(this.stage.random.between(1, 200));
  }

  /** Opens a connection. It gives up if nothing comes for a while. */
  connect(sessionId: string, take: (push: Push) => void): Connection {
    const { network, random, world } = this.stage;
    const parser = new SseParser();
    let status = 0;
    let text = "";
    let isOpen = true;
    let finish: (why: string) => void = () => {};
    const exchange = network.open(
      { method: "GET", path: `/v1/live/${sessionId}` },
      {
        head: (head) => {
          status = head.status;
        },
        chunk: (bytes) => {
          if (status !== 200) text += Buffer.from(bytes).toString();
          else {
            for (const { data } of parser.push(bytes)) {
              if (data === "" || !isOpen) continue;
              cancel();
              take(JSON.parse(data));
            }
          }
        },
        end: () => finish(`${status}`),
        refused: () => finish("refused"),
        lost: (why) => finish(why),
      },
      random.pick([1, 1, 50, 1_000]),
    );
    const cancel = world.schedule("no hello", PATIENCE_MS, () => finish("no hello"));
    const over = new Promise<boolean>((resolve) => {
      finish = (why) => {
        if (!isOpen) return;
        isOpen = false;
        cancel();
        this.say(`connection ended: ${why}`);
        exchange.leave();
        resolve(status === 404 && text.includes("session-not-found"));
      };
    });
    return { leave: () => finish("left"), over };
  }
}
