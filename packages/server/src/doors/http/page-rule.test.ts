import { describe, expect, test } from "vitest";
import { type PageRule, type PageRuleSettings, pageRuleOf, refusePage } from "./page-rule.ts";

type Settings = Partial<PageRuleSettings> & {
  readonly hosts?: readonly string[];
  readonly origins?: readonly string[];
};

function ruleOf({ hosts = [], origins = [], isLocal = true, publicUrl }: Settings = {}): PageRule {
  return pageRuleOf({ isLocal, http: { hosts }, cors: { origins }, publicUrl });
}

function codeFor(rule: PageRule, host: string | undefined, origin?: string, isWrite = true): string | undefined {
  return refusePage(rule, { host, origin, isWrite })?.code;
}

describe("the Host of a request", () => {
  const LOCAL =
    "localhost localhost:4437 LOCALHOST:1 localhost. app.localhost:80 127.0.0.1:4437 127.9.8.7 [::1]:4437 [::1] 0.0.0.0:1 192.168.1.5:80";
  const FOREIGN =
    "evil.example evil.example:4437 sluice localhost.evil.example evil-localhost 127.0.0.1.evil.example localhost:80:80 localhost@evil.example a/b [::1 [evil.example] :80";

  test.each([
    ["on a developer's server is localhost or an IP address", {}, LOCAL, `${FOREIGN} streams.example.com`],
    [
      "may be a name that the operator lists",
      { hosts: ["Sluice.Test"] },
      `${LOCAL} sluice.test SLUICE.test:80`,
      FOREIGN,
    ],
    [
      "may be below a domain that the operator lists",
      { hosts: ["*.test"] },
      "a.test b.a.test:1",
      "test atest a.test.evil.example",
    ],
    [
      "may be that of the public address",
      { publicUrl: "https://a.example:8443" },
      "a.example a.example:1",
      "b.example",
    ],
    ["on any other listener is free", { isLocal: false }, `${LOCAL} ${FOREIGN}`, ""],
    [
      "on any other listener stays free with a public address",
      { isLocal: false, publicUrl: "https://a.example" },
      FOREIGN,
      "",
    ],
    [
      "on any other listener is one of those that the operator lists",
      { isLocal: false, hosts: ["sluice"], publicUrl: "https://a.example" },
      `${LOCAL} sluice sluice:4437 a.example`,
      "evil.example sluice.evil.example",
    ],
  ] satisfies [string, Settings, string, string][])("%s", (_, settings, accepted, refused) => {
    const rule = ruleOf(settings);
    for (const isWrite of [true, false]) {
      for (const host of accepted.split(" ")) expect(codeFor(rule, host, undefined, isWrite), host).toBeUndefined();
      for (const host of refused.split(" ").filter(Boolean)) {
        expect(codeFor(rule, host, undefined, isWrite), host).toBe("host-not-allowed");
      }
    }
  });

  test("may be absent, as HTTP/1.0 allows, but not empty", () => {
    expect(codeFor(ruleOf(), undefined)).toBeUndefined();
    expect(codeFor(ruleOf(), "")).toBe("host-not-allowed");
  });
});

describe("the Origin of a write", () => {
  const LOCAL =
    "http://localhost http://localhost:5173 https://localhost:1 http://a.localhost:1 http://127.0.0.1:3000 http://127.1.2.3 http://[::1]:3000";
  const FOREIGN =
    "null https://evil.example http://localhost.evil.example http://evil-localhost file:// http:// http://localhost@evil.example " +
    "http://localhost/x chrome-extension://abc http://192.168.1.5:5173 https://app.example:444 http://app.example";

  test.each([
    ["on a developer's server is a page of this machine", {}, LOCAL, `${FOREIGN} https://app.example`],
    [
      "may be one that the operator lists",
      { origins: ["https://app.example"] },
      `${LOCAL} https://app.example`,
      FOREIGN,
    ],
    ["is free where the operator allows every page", { origins: ["*"] }, `${LOCAL} ${FOREIGN}`, ""],
    ["may be the public address", { publicUrl: "https://a.example" }, `${LOCAL} https://a.example`, FOREIGN],
    ["is free where callers need keys or other machines can connect", { isLocal: false }, `${LOCAL} ${FOREIGN}`, ""],
  ] satisfies [string, Settings, string, string][])("%s", (_, settings, accepted, refused) => {
    const rule = ruleOf(settings);
    const host = "localhost:4437";
    for (const origin of accepted.split(" ")) expect(codeFor(rule, host, origin), origin).toBeUndefined();
    for (const origin of refused.split(" ").filter(Boolean)) {
      expect(codeFor(rule, host, origin), origin).toBe("origin-not-allowed");
      // CORS keeps a foreign page from reading the response.
      expect(codeFor(rule, host, origin, false), origin).toBeUndefined();
    }
  });

  test("may be the server itself, under a Host that is accepted", () => {
    const rule = ruleOf({ hosts: ["sluice.test"] });
    expect(codeFor(rule, "sluice.test:81", "http://sluice.test:81")).toBeUndefined();
    expect(codeFor(rule, "sluice.test:81", "http://sluice.test:82")).toBe("origin-not-allowed");
    expect(codeFor(rule, "192.168.1.5:81", "http://192.168.1.5:81")).toBeUndefined();
    expect(codeFor(rule, "rebound.example:81", "http://rebound.example:81")).toBe("host-not-allowed");
  });
});

test("a refusal names what was sent and the setting that allows it", () => {
  const foreign = { host: "evil.example", origin: "https://evil.example", isWrite: true };
  expect(refusePage(ruleOf(), foreign)?.message).toMatch(/"evil\.example".*http\.hosts/);
  expect(refusePage(ruleOf(), { ...foreign, host: "localhost" })?.message).toMatch(/"https:\/\/evil.*cors\.origins/);
});
