/** The token of a session: what it says survives the way there and back, and no changed letter does. */
import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { RuleView } from "../../../../test/support/rule-view.ts";
import { utf8 } from "../core/bytes.ts";
import { keyRule, keysTable } from "./key-rules.ts";
import { isSessionToken, type Mac, readToken, type SessionToken, signToken } from "./token.ts";

const mac: Mac = (key, message) => new Uint8Array(createHmac("sha256", key).update(message).digest());
const SECRET = utf8("secret");
const TOKEN: SessionToken = {
  key: "k1",
  project: "p",
  session: "s",
  subject: "ann",
  scope: "read write",
  streams: ["a/#"],
  untilMs: 1_000,
  credentialsUntilMs: 5_000,
};
const signed = (token: Partial<SessionToken> = {}) => signToken({ ...TOKEN, ...token }, SECRET, mac)!;
const proved = (text: string, secret = SECRET) => readToken(text)?.prove(secret, mac);

describe("a session token", () => {
  it.each([TOKEN, { ...TOKEN, subject: undefined, streams: undefined, credentialsUntilMs: undefined }])(
    "says what was signed: %o",
    (token) => {
      const text = signed(token);
      expect(isSessionToken(text)).toBe(true);
      expect(readToken(text)?.key).toBe("k1");
      expect(proved(text)).toEqual(token);
    },
  );

  it("is not proved by another secret", () => {
    expect(proved(signed(), utf8("other"))).toBeUndefined();
  });

  it("is not proved with any letter changed", () => {
    const text = signed();
    for (let i = "sls_".length; i < text.length; i++) {
      const other = text[i] === "A" ? "B" : "A";
      expect(proved(text.slice(0, i) + other + text.slice(i + 1))).toBeUndefined();
    }
  });

  it.each(["", "sls_", "sls_.", "sls_W10.x", "eyJh.eyJz.sig", `sls_${"a".repeat(9_000)}.b`])("is none: %j", (text) => {
    expect(readToken(text)).toBeUndefined();
  });

  it("is not written if it would be too long to be read", () => {
    expect(signToken({ ...TOKEN, streams: Array.from({ length: 100 }, () => "a".repeat(100)) }, SECRET, mac)).toBe(
      undefined,
    );
  });
});

describe("the keys that sign", () => {
  const LIMITS = { keyMs: 1_000, tokenMs: 100 };
  const fresh = (id: string) => ({ id, secret: id });
  const use = (view: RuleView, now: number, id: string) => view.run(keyRule(view, now, fresh(id), LIMITS)).id;
  const ids = (view: RuleView) => view.get(keysTable, "")!.map(({ id }) => id);

  it("are made once and used until they are too old", () => {
    const view = new RuleView();
    expect([use(view, 0, "a"), use(view, 999, "b")]).toEqual(["a", "a"]);
    expect(use(view, 1_000, "b")).toBe("b");
    expect(ids(view)).toEqual(["a", "b"]);
  });

  it("stay while a token of theirs may live, and go afterwards", () => {
    const view = new RuleView();
    use(view, 0, "a");
    use(view, 1_000, "b");
    use(view, 2_000, "c");
    expect(ids(view)).toEqual(["b", "c"]);
  });
});
