import { Agent, createServer, get, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { Reply } from "../../core/http.ts";
import { HttpDoor } from "./http-door.ts";
import type { NodeRequest } from "./node-request.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("a connection that is kept alive holds nothing of the requests that were answered on it", async () => {
  const seen: WeakRef<IncomingMessage>[] = [];
  const door = await HttpDoor.open({
    host: "127.0.0.1",
    port: 0,
    handle(request) {
      seen.push(new WeakRef((request as NodeRequest).incoming));
      return { status: 200, headers: [], body: "here" };
    },
    report: (fault) => {
      throw fault;
    },
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      get({ agent, host: "127.0.0.1", port: door.port }, (answer) => answer.resume().on("end", resolve)).on(
        "error",
        reject,
      );
    });
  try {
    for (let i = 0; i < 3; i++) await ask();
    // The last of a request goes with the turns after its answer.
    const countHeld = () => {
      collectGarbage();
      return seen.filter((one) => one.deref() !== undefined).length;
    };
    await expect.poll(countHeld).toBe(0);
    expect(seen.length).toBe(3);
    expect(door.connections).toBe(1);
  } finally {
    agent.destroy();
    await door.close();
  }
});

test("a request through a mount while the door closes does not keep idle connections open", async () => {
  const answers: ((reply: Reply) => void)[] = [];
  const door = await HttpDoor.open({
    host: "127.0.0.1",
    port: 0,
    handle: () => new Promise((resolve) => answers.push(resolve)),
    report: (fault) => {
      throw fault;
    },
  });
  const other = createServer(door.mount("").handler);
  await new Promise<void>((resolve) => void other.listen(0, "127.0.0.1", resolve));
  const clientOf = (port: number) => connect(port, "127.0.0.1").resume();
  const clients = [clientOf(door.port), clientOf(door.port), clientOf((other.address() as AddressInfo).port)];
  const [owed, , visitor] = clients;
  const answer = () => answers.shift()!({ status: 200, headers: [], body: "here" });
  const ask = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  try {
    owed!.write(ask);
    await expect.poll(() => [answers.length, door.connections]).toEqual([1, 2]);
    const closed = door.close().then(() => "closed");
    visitor!.write(ask);
    await expect.poll(() => answers.length).toBe(2);
    answer();
    answer();
    const late = new Promise((resolve) => setTimeout(resolve, 10_000, "open").unref());
    expect(await Promise.race([closed, late])).toBe("closed");
  } finally {
    for (const client of clients) client.destroy();
    other.close();
  }
});
