/**
 * Sends malformed requests over a few keep-alive connections, and garbage over connections of its own, and judges every
 * answer. The fuzz tests of test/e2e call it.
 *
 * Invariants: the same seed sends the same requests in the same order.
 */
import fc from "fast-check";
import { type Answer, RawConnection, type RawResponse } from "../raw-http.ts";
import { type Garbage, garbage } from "./garbage.ts";
import { judge, judgeAnswer } from "./judge.ts";
import { type FuzzRequest, fuzzRequest, render } from "./requests.ts";

export interface StormSize {
  readonly batches: number;
  readonly batch: number;
}

/** Returns how many requests it sent. */
export async function requestStorm(port: number, seed: number, { batches, batch }: StormSize): Promise<number> {
  const client = new KeepAliveClient(port);
  let sent = 0;
  const batchOf = fc.array(fuzzRequest, { minLength: batch, maxLength: batch });
  const property = fc.asyncProperty(batchOf, async (requests) => {
    await Promise.all(requests.map(async (request) => judge(request, await client.send(request))));
    sent += requests.length;
  });
  try {
    await run(property, seed, batches);
  } finally {
    client.close();
  }
  return sent;
}

export async function garbageStorm(port: number, seed: number, { batches, batch }: StormSize): Promise<number> {
  let sent = 0;
  const property = fc.asyncProperty(fc.array(garbage, { minLength: batch, maxLength: batch }), async (items) => {
    await Promise.all(items.map((item) => throwAt(port, item)));
    sent += items.length;
  });
  await run(property, seed, batches);
  return sent;
}

/** The failure names the request at fault; the whole batch around it would only hide it. */
async function run<T>(property: fc.IAsyncProperty<T>, seed: number, numRuns: number): Promise<void> {
  const outcome = await fc.check(property, { seed, numRuns, endOnFailure: true });
  if (!outcome.failed) return;
  throw new Error(`seed ${seed}, batch ${outcome.numRuns}: ${(outcome.errorInstance as Error).message}`);
}

/** One connection per concurrent request, each reused as long as the server keeps it open. */
class KeepAliveClient {
  private readonly idle: RawConnection[] = [];

  constructor(private readonly port: number) {}

  async send(request: FuzzRequest): Promise<Answer> {
    const connection = await this.take();
    connection.send(render(request));
    const answer = await connection.answer(request.method).catch((reason: Error) => {
      throw new Error(`${reason.message}\n--- to ---\n${JSON.stringify(render(request))}`);
    });
    if (canGoOn(answer)) this.idle.push(connection);
    else connection.destroy();
    return answer;
  }

  close(): void {
    for (const connection of this.idle) connection.destroy();
  }

  private async take(): Promise<RawConnection> {
    for (;;) {
      const connection = this.idle.pop();
      if (connection === undefined) return RawConnection.open(this.port);
      if (!connection.ended) return connection;
    }
  }
}

function canGoOn(answer: Answer): boolean {
  if (answer === "closed" || answer.headers.get("connection") === "close") return false;
  return answer.headers.get("content-type") !== "text/event-stream";
}

/** The server must answer every whole request, and then close the connection. */
async function throwAt(port: number, item: Garbage): Promise<void> {
  const connection = await RawConnection.open(port);
  try {
    for (const piece of item.pieces) {
      connection.send(piece);
      if (item.pieces.length > 1) await new Promise((resolve) => setImmediate(resolve));
    }
    if (item.ending === "reset") return connection.reset();
    if (item.ending === "leave") return;
    for (let i = 0; i < item.owed; i++) {
      if (!(await judgedAnswer(connection))) throw new Error(`${i} answers, ${item.owed} owed`);
    }
    // The server treats the end of the client's side as a disconnect, so it comes after the owed answers.
    connection.socket.end();
    while (await judgedAnswer(connection));
  } catch (reason) {
    throw new Error(`${(reason as Error).message}\n--- to ---\n${JSON.stringify(item)}`);
  } finally {
    connection.destroy();
  }
}

/** Undefined when the connection has ended instead. */
async function judgedAnswer(connection: RawConnection): Promise<RawResponse | undefined> {
  // The method is unknown here; no garbage is a HEAD that could get a body.
  const answer = await connection.answer("GET");
  if (answer === "closed") return undefined;
  judgeAnswer(answer, "GET");
  return answer;
}
