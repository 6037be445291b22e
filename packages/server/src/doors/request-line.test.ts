import { describe, expect, test } from "vitest";
import { MemoryBudget } from "./memory-budget.ts";
import { RequestLine } from "./request-line.ts";

const LIMITS = { openRequests: 3, waitingBytes: 100, queuedRequests: 2, requestBytes: 10 };

/** A request by its name: a read (`r1`), a write (`w1`), one to another address (`x1`), one of another method (`d1`). */
class Request {
  readonly isRead: boolean;
  readonly method: string;
  readonly path: string;
  constructor(readonly name: string) {
    this.isRead = name.startsWith("r");
    this.method = this.isRead ? "GET" : name.startsWith("d") ? "DELETE" : "POST";
    this.path = name.startsWith("x") ? "/other" : "/one";
  }
}

/** A connection that writes down what its line does to it. `onBegin` lets a test answer at once. */
class Connection {
  readonly log: string[] = [];
  readonly budget: MemoryBudget;
  readonly line: RequestLine<Request>;
  onBegin: (request: Request) => void = () => {};

  constructor(memoryBytes = 100_000) {
    this.budget = new MemoryBudget({ memoryBytes, smallBytes: 50 });
    const { log } = this;
    const port = {
      begin: (request: Request) => {
        log.push(request.name);
        this.onBegin(request);
      },
      pause: () => void log.push("pause"),
      resume: () => void log.push("resume"),
      cut: () => {
        log.push("cut");
        this.line.close();
      },
    };
    this.line = new RequestLine(port, LIMITS, this.budget);
  }

  /** Names of requests arrive; `=w1` answers w1, `!w1` with the last answer of the connection; `+80` holds bytes, `-80` drains them; `sent` and `close` are themselves. */
  run(steps: string): string {
    this.log.length = 0;
    for (const step of steps.split(" ")) this.step(step);
    return this.log.join(" ");
  }

  private step(step: string): void {
    const rest = step.slice(1);
    if (step === "sent") this.line.sent();
    else if (step === "close") this.line.close();
    else if (step.startsWith("=")) this.line.answered();
    else if (step.startsWith("!")) this.line.answered(true);
    else if (step.startsWith("+")) expect(this.line.hold(Number(rest))).toBe(true);
    else if (step.startsWith("-")) this.line.drained(Number(rest));
    else this.line.arrive(new Request(step));
  }
}

describe("the requests of a connection", () => {
  test.each([
    ["begin at once while few are open", "w1 w2 w3", "w1 w2 w3"],
    ["wait beyond that, and begin in order when an answer is sent", "w1 w2 w3 w4 w5 sent sent", "w1 w2 w3 w4 w5"],
    ["that read begin one after another, each when the answer before it is known", "r1 r2 =r1", "r1 r2"],
    ["that read wait although others may begin", "r1 r2", "r1"],
    ["that write to one address begin together", "w1 w2 =w1 =w2 sent x1 x2", "w1 w2 x1 x2"],
    ["that write to another address wait for those before them", "w1 w2 x1 =w1", "w1 w2"],
    ["that write to another address begin after those before them", "w1 w2 x1 =w1 =w2", "w1 w2 x1"],
    ["of another method wait for those before them", "w1 d1 w2 =w1", "w1 d1"],
    ["that write wait while a read is worked on", "r1 w1", "r1"],
    ["that read wait while a write is worked on", "w1 r1", "w1"],
    ["that read begin when the write before them is answered", "w1 r1 =w1", "w1 r1"],
    ["never overtake one that waits", "r1 r2 w1", "r1"],
    ["begin up to the limit of waiting bytes", "r1 +100 =r1 r2", "r1 r2"],
    ["wait while more answer bytes than that wait", "r1 +101 =r1 r2 w1", "r1"],
    ["begin again when the client has taken them", "r1 +101 =r1 r2 w1 -101", "r1 r2"],
    ["pause the reading when too many wait", "r1 r2 r3 r4", "r1 pause"],
    ["pause it once", "r1 r2 r3 r4 r5", "r1 pause"],
    ["resume it when few enough wait", "r1 r2 r3 r4 =r1 =r2", "r1 pause r2 resume r3"],
    ["have no effect behind an answer that ends the connection", "w1 x1 !w1 w2 sent", "w1"],
    ["begin no more after the end", "r1 r2 close =r1 sent w1", "r1"],
  ])("%s", (_, steps, expected) => {
    expect(new Connection().run(steps)).toBe(expected);
  });

  test("that are answered at once are worked off in a loop, not in calls within calls", () => {
    const connection = new Connection(1_000_000);
    const { line } = connection;
    const first = new Request("r");
    line.arrive(first);
    for (let i = 0; i < 5_000; i++) line.arrive(new Request("r"));
    let begun = 0;
    connection.onBegin = () => {
      begun++;
      line.answered();
      line.sent();
    };
    line.answered();
    expect(begun).toBe(5_000);
    expect(connection.budget.usedBytes).toBe(0);
  });
});

describe("the budget", () => {
  test.each([
    ["is not charged for the first request of a connection", "w1", 0],
    ["is charged for each request behind it, begun or not", "w1 w2 r1 r2", 30],
    ["gets that back as answers are sent", "w1 w2 w3 sent sent", 0],
    ["keeps it while answers are known and not sent", "r1 r2 r3 =r1 =r2", 20],
    ["is charged for unsent answers", "r1 +70", 70],
    ["gets back what the client takes", "r1 +70 -30", 40],
    ["gets everything back with the end of the connection", "r1 r2 +70 close", 0],
    ["gets nothing back twice", "r1 +70 close -70 close", 0],
  ])("%s", (_, steps, used) => {
    const connection = new Connection();
    connection.run(steps);
    expect(connection.budget.usedBytes).toBe(used);
  });

  test("that is used up cuts the connection of the next request that must wait, and refuses further answer bytes", () => {
    const connection = new Connection(85);
    connection.budget.take(50);
    expect(connection.run("r1 r2 r3")).toBe("r1");
    expect(connection.line.hold(31)).toBe(false);
    expect(connection.run("r4 r5")).toBe("pause cut");
    expect(connection.budget.usedBytes).toBe(50);
    expect(connection.line.hold(1)).toBe(false);
  });
});
