import { describe, expect, it } from "vitest";
import { codeOf } from "../../../../test/support/refusal-code.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Access, FULL_ACCESS } from "../core/action.ts";
import { type Credentials, OpenIdentity, type SessionTokens, TokenIdentity } from "./identity.ts";
import { mint } from "./mint.ts";
import { AUTH_DEFAULTS } from "./options.ts";

const SECRET = "a secret of at least 32 characters";
const world = manualWorld(1);

const shows = (some: Partial<Credentials>): Credentials => ({
  authorization: undefined,
  cookieToken: undefined,
  addressToken: undefined,
  request: { method: "GET", path: "/", search: "", origin: "", header: () => undefined },
  ...some,
});

const SESSION_ACCESS: Access = { ...FULL_ACCESS, subject: "alice", isAdmin: false };

/** Knows one token, of one project. */
const sessionTokens: SessionTokens = {
  verify: async (project, token) => (project === "p" && token === "good" ? SESSION_ACCESS : undefined),
};

function tokenIdentity(tokens?: SessionTokens): TokenIdentity {
  return new TokenIdentity({
    settings: { ...AUTH_DEFAULTS, projects: { p: { secrets: [SECRET] } } },
    world,
    fetchKeys: async () => {
      throw new Error("no keys are published");
    },
    report: () => {},
    sessionTokens: tokens,
  });
}

describe("a session token in the address", () => {
  const identities = { "with keys": tokenIdentity(sessionTokens), "with auth off": new OpenIdentity(sessionTokens) };

  it.each(Object.entries(identities))("says who calls, %s", async (_, identity) => {
    expect(await identity.identify("p", shows({ addressToken: "good" }))).toBe(SESSION_ACCESS);
  });

  it.each(Object.entries(identities))("is refused when it is bad or another project's, %s", async (_, identity) => {
    for (const [project, addressToken] of [
      ["p", "bad"],
      ["q", "good"],
      [undefined, "good"],
    ] as const) {
      expect(await codeOf(() => identity.identify(project, shows({ addressToken })))).toBe("token-invalid");
    }
  });

  it("is refused where no feature has session tokens, an ordinary token too", async () => {
    const token = await mint(SECRET, { scope: "read", ttlSeconds: 60 }, world.now());
    const identity = tokenIdentity();
    expect(await codeOf(() => identity.identify("p", shows({ addressToken: token })))).toBe("token-invalid");
    expect(await codeOf(() => identity.identify("p", shows({ authorization: `Bearer ${token}` })))).toBe("taken");
  });

  it("does not count beside a header", async () => {
    const credentials = shows({ authorization: "Bearer nonsense", addressToken: "good" });
    expect(await codeOf(() => tokenIdentity(sessionTokens).identify("p", credentials))).toBe("token-invalid");
  });
});

it("with auth off a caller without a session token may do everything", async () => {
  expect(new OpenIdentity(sessionTokens).identify("p", shows({}))).toBe(FULL_ACCESS);
});

it("a cookie identifies like a header, and no credentials at all are refused", async () => {
  const token = await mint(SECRET, { scope: "read", ttlSeconds: 60, sub: "bob" }, world.now());
  const identity = tokenIdentity();
  expect(await identity.identify("p", shows({ cookieToken: token }))).toMatchObject({ subject: "bob" });
  expect(await codeOf(() => identity.identify("p", shows({})))).toBe("unauthenticated");
});
