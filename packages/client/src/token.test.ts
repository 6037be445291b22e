import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Token, type TokenSource } from "./token.ts";

beforeEach(() => void vi.useFakeTimers({ now: 1_000_000_000_000 }));
afterEach(() => void vi.useRealTimers());

function jwt(claims: object): string {
  return ["{}", JSON.stringify(claims), "signature"].map((part) => Buffer.from(part).toString("base64url")).join(".");
}

/** A JWT that lives this long by a clock that is this far ahead. */
function livingFor(seconds: number, aheadSeconds = 0): string {
  const iat = Date.now() / 1_000 + aheadSeconds;
  return jwt({ iat, exp: iat + seconds, name: "ü" });
}

function counted(source: (call: number) => ReturnType<Exclude<TokenSource, string>>) {
  let calls = 0;
  const token = new Token(() => source(++calls));
  return { token, calls: () => calls };
}

async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

test("a token is renewed shortly before it expires, beside the requests", async () => {
  const { token, calls } = counted(() => livingFor(600));
  const first = await token.get(undefined);
  vi.advanceTimersByTime(569_000);
  expect(token.get(undefined)).toBe(first);
  expect(calls()).toBe(1);
  vi.advanceTimersByTime(2_000);
  // The old token is still valid, so this request does not wait.
  expect(token.get(undefined)).toBe(first);
  expect(token.get(undefined)).toBe(first);
  await settle();
  expect(calls()).toBe(2);
  expect(token.get(undefined)).not.toBe(first);
});

test("a token that has expired meanwhile is not used", async () => {
  const { token, calls } = counted(() => livingFor(60));
  const first = await token.get(undefined);
  vi.advanceTimersByTime(60_000);
  const second = token.get(undefined);
  expect(second).toBeInstanceOf(Promise);
  expect(await second).not.toBe(first);
  expect(calls()).toBe(2);
});

test("a token function may say itself when its token expires", async () => {
  const { token, calls } = counted((call) => ({ token: `opaque ${call}`, expiresAt: Date.now() + 10_000 }));
  expect(await token.get(undefined)).toBe("opaque 1");
  vi.advanceTimersByTime(8_000);
  expect(token.get(undefined)).toBe("opaque 1");
  await settle();
  expect(token.get(undefined)).toBe("opaque 2");
  expect(calls()).toBe(2);
});

test.each([-7_200, 7_200])("a clock that is %i seconds off causes no call per request", async (seconds) => {
  const { token, calls } = counted(() => livingFor(600, seconds));
  for (let i = 0; i < 10; i++) await token.get(undefined);
  expect(calls()).toBe(1);
  // Where the token tells when it was issued, it is renewed in time all the same.
  vi.advanceTimersByTime(575_000);
  token.get(undefined);
  expect(calls()).toBe(2);
  const { token: bare, calls: bareCalls } = counted(() => jwt({ exp: Date.now() / 1_000 + 600 + seconds }));
  for (let i = 0; i < 10; i++) await bare.get(undefined);
  expect(bareCalls()).toBe(1);
});

test("a renewal that fails leaves the valid token in use, and is tried again later", async () => {
  const { token, calls } = counted((call) => {
    if (call === 2) throw new Error("not now");
    return livingFor(600);
  });
  const first = await token.get(undefined);
  vi.advanceTimersByTime(580_000);
  for (let i = 0; i < 5; i++) {
    expect(token.get(undefined)).toBe(first);
    await settle();
  }
  expect(calls()).toBe(2);
  vi.advanceTimersByTime(11_000);
  expect(token.get(undefined)).toBe(first);
  await settle();
  expect(token.get(undefined)).not.toBe(first);
});

test("what is not a token is an error of the token function", async () => {
  const { token } = counted(() => undefined as unknown as string);
  await expect(token.get(undefined)).rejects.toMatchObject({ code: "token-failed", retryable: true });
});

test("the late refusal of a token that was replaced meanwhile asks for no other token", async () => {
  let asked = 0;
  const token = new Token(() => `t${++asked}`);
  const first = await token.get(undefined);
  expect(token.refuse(first)).toBe(true);
  expect(await token.get(undefined)).toBe("t2");
  expect(token.refuse(first)).toBe(true);
  expect(token.get(undefined)).toBe("t2");
});
