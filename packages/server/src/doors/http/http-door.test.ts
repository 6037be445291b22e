import { Agent, get, type IncomingMessage } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
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
