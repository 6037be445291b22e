import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import type { Sink } from "../../packages/server/src/core/sink.ts";
import { AuthApp } from "./app.ts";

const STREAM = "/v1/p/stream/a";

/** A client that takes all bytes at once. */
class Taker implements Sink {
  readonly buffered = 0;
  text = "";
  isEnded = false;

  write(bytes: Uint8Array): void {
    this.text += new TextDecoder().decode(bytes);
  }

  onDrain(task: () => void): void {
    queueMicrotask(task);
  }

  onGone(): void {}

  end(): void {
    this.isEnded = true;
  }

  cut(): void {
    this.isEnded = true;
  }
}

it("a live reader may outlive its token until its connection ends by itself, and cannot reconnect with it", async () => {
  const app = new AuthApp({ tail: { sseMs: 60_000 } });
  await app.prepare("PUT", STREAM);
  const token = await app.token({ scope: "read", ttlSeconds: 10 });
  const live = await app.reply("GET", `${STREAM}?offset=-1&live=sse`, { token });
  expect(live.status).toBe(200);
  const taker = new Taker();
  live.live!(taker);

  app.world.advance(30_000);
  expect((await app.call("GET", STREAM, { token })).body.code).toBe("token-expired");
  await app.prepare("POST", STREAM, { body: ["after its token"] });
  for (let i = 0; i < 1_000 && !taker.text.includes("after its token"); i++) await turn();
  expect(taker.text).toContain("after its token");
  expect(taker.isEnded).toBe(false);

  app.world.advance(30_000);
  expect(taker.isEnded).toBe(true);
  expect(await app.call("GET", `${STREAM}?offset=-1&live=sse`, { token })).toMatchObject({
    status: 401,
    body: { code: "token-expired" },
  });
});
