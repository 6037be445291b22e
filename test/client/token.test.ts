import { SluiceError } from "@sluice/client";
import { beforeAll, describe, expect, test } from "vitest";
import { mint } from "../../packages/server/src/auth/mint.ts";
import { closeAfterSuite, type Fixture, openServer, serverForTest } from "../e2e/server.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { noUnhandledRejections, numbersTo, openClient, QUICK, valuesOf } from "./open-client.ts";

const REFUSED = {
  kind: "answer",
  status: 401,
  headers: { "Content-Type": "application/problem+json" },
  body: JSON.stringify({ code: "token-expired", detail: "the token has expired", retryable: false }),
} as const;

/** A gate in front of the server that lets one token through, and counts how often the client asks for a new one. */
function gate(first: string) {
  let valid = first;
  let asked = 0;
  const { fetch, sent } = faultyFetch(({ headers }) =>
    headers.get("authorization") === `Bearer ${valid}` ? undefined : REFUSED,
  );
  return {
    fetch,
    sent,
    change: (next: string) => {
      valid = next;
    },
    token: async () => {
      asked++;
      return valid;
    },
    get asked() {
      return asked;
    },
  };
}

describe("with a token function,", () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openServer("memory");
  });
  closeAfterSuite(() => fixture);

  test("a token is asked for once, used until it is refused, and then renewed once for all requests", async () => {
    const door = gate("t1");
    const sluice = openClient(fixture.url, door);
    await Promise.all(numbersTo(5).map((n) => sluice.stream(`token/many-${n}`).create()));
    for (const n of numbersTo(5)) await sluice.stream(`token/many-${n}`).info();
    expect(door.asked).toBe(1);
    door.change("t2");
    await Promise.all(numbersTo(5).map((n) => sluice.stream(`token/many-${n}`).append(n)));
    expect(door.asked).toBe(2);
    expect(await valuesOf(sluice.stream("token/many-3"))).toEqual([3]);
  });

  test("appends and a live read continue over an expired token, without loss or repetition", async () => {
    const door = gate("t1");
    const sluice = openClient(fixture.url, { fetch: door.fetch, token: door.token, append: { batchMessages: 3 } });
    const stream = sluice.stream<number>("token/renewed");
    await stream.create();
    const reading = valuesOf(stream, { live: "long-poll" });
    for (const n of numbersTo(60)) {
      if (n % 10 === 0) door.change(`t${n}`);
      await stream.append(n);
    }
    await stream.close();
    expect(await reading).toEqual(numbersTo(60));
  });

  test("a second refusal in a row reaches the caller at once", async () => {
    const door = gate("good");
    const sluice = openClient(fixture.url, { fetch: door.fetch, token: () => "bad" });
    const stream = sluice.stream("token/refused");
    await expect(stream.create()).rejects.toMatchObject({ code: "token-expired", status: 401, retryable: false });
    expect(door.sent).toHaveLength(2);
    await expect(valuesOf(stream, { live: true })).rejects.toMatchObject({ status: 401 });
    await expect(stream.append(1)).rejects.toMatchObject({ status: 401 });

    const fixed = openClient(fixture.url, { fetch: door.fetch, token: "bad" }).stream("token/refused");
    await expect(fixed.create()).rejects.toMatchObject({ status: 401 });
  });

  test("a token function that fails for a while is called again, and its final failure reaches the caller", async () => {
    noUnhandledRejections();
    const door = gate("late");
    let failures = 0;
    const flaky = openClient(fixture.url, {
      fetch: door.fetch,
      token: () => {
        if (failures++ < 3) throw new Error("not yet");
        return "late";
      },
    });
    await flaky.stream("token/flaky").create();
    expect(failures).toBe(4);

    const hopeless = openClient(fixture.url, {
      fetch: door.fetch,
      retries: { ...QUICK, giveUpMs: 50 },
      token: () => Promise.reject(new Error("logged out")),
    });
    await expect(hopeless.stream("token/flaky").info()).rejects.toMatchObject({
      code: "token-failed",
      message: "the token function failed: logged out",
    });

    const final = openClient(fixture.url, {
      fetch: door.fetch,
      token: () => {
        throw new SluiceError("logged-out", "log in first");
      },
    });
    await expect(valuesOf(final.stream("token/flaky"), { live: true })).rejects.toMatchObject({ code: "logged-out" });
  });

  test("an abort while a token is awaited rejects with the abort's reason", async () => {
    noUnhandledRejections();
    const sluice = openClient(fixture.url, { token: () => new Promise<string>(() => {}) });
    const abort = new AbortController();
    const info = sluice.stream("token/never").info({ signal: abort.signal });
    const reading = valuesOf(sluice.stream("token/never"), { live: true, signal: abort.signal });
    abort.abort(new Error("enough"));
    await expect(info).rejects.toThrow("enough");
    expect(await reading).toEqual([]);
  });

  test("tokens that live a second carry appends and readers over many renewals", async () => {
    const secret = "a secret that only this test and its server know";
    const locked = await serverForTest("memory", {
      projects: { p: { secrets: [secret] } },
      auth: { clockSkewSeconds: 0 },
    });
    let asked = 0;
    const token = () => {
      asked++;
      return mint(secret, { scope: "read write", ttlSeconds: 1 }, Date.now());
    };
    const stream = openClient(locked.url, { project: "p", token }).stream<number>("token/real");
    await stream.create();
    const reading = (["sse", "long-poll"] as const).map((live) => valuesOf(stream, { live }));
    for (const n of numbersTo(35)) {
      await stream.append(n);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await stream.close();
    for (const values of reading) expect(await values).toEqual(numbersTo(35));
    expect(asked).toBeGreaterThan(2);
    const stranger = openClient(locked.url, { project: "p" }).stream("token/real");
    await expect(stranger.info()).rejects.toMatchObject({ status: 401 });
    const reader = () => mint(secret, { scope: "read", ttlSeconds: 60 }, Date.now());
    const readOnly = openClient(locked.url, { project: "p", token: reader }).stream("token/real");
    expect(await valuesOf(readOnly)).toHaveLength(35);
    await expect(readOnly.append(1)).rejects.toMatchObject({ status: 403, retryable: false });
  });
});
