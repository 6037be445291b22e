import { describe, expect, it } from "vitest";
import { codeOf } from "../../../../test/support/refusal-code.ts";
import { manualWorld } from "../../../../test/support/world.ts";
import { type Action, FULL_ACCESS } from "../core/action.ts";
import { type Credentials, type Identity, OpenIdentity, TokenIdentity } from "./identity.ts";
import { mint } from "./mint.ts";
import { AUTH_DEFAULTS } from "./options.ts";
import { SessionTokenIdentity, type SessionTokens } from "./session-tokens.ts";

const SECRET = "a secret of at least 32 characters";
const world = manualWorld(1);

const shows = (some: Partial<Credentials>): Credentials => ({
  authorization: undefined,
  cookieToken: undefined,
  addressToken: undefined,
  request: { method: "GET", path: "/", search: "", origin: "", header: () => undefined },
  ...some,
});

function tokenIdentity(): TokenIdentity {
  return new TokenIdentity({
    settings: { ...AUTH_DEFAULTS, projects: { p: { secrets: [SECRET] } } },
    world,
    fetchKeys: async () => {
      throw new Error("no keys are published");
    },
    report: () => {},
  });
}

/** Knows one token of one project; its session subscribes to a/b. */
const tokens: SessionTokens = {
  isOne: (token) => token.startsWith("sls_"),
  verify: async (project, token) =>
    project === "p" && token.startsWith("sls_good")
      ? {
          project,
          session: "s",
          subject: "alice",
          scope: "read",
          streams: ["a/#"],
          untilMs: token === "sls_good-old" ? world.now() : world.now() + 1,
          credentialsUntilMs: undefined,
          subscribes: async (stream) => stream === "a/b",
        }
      : undefined,
};
const around = (inner: Identity) => new SessionTokenIdentity(inner, tokens, () => world.now());
const identities = { "with keys": around(tokenIdentity()), "with auth off": around(new OpenIdentity()) };

describe.each(Object.entries(identities))("a session token, %s,", (_, identity) => {
  it.each([{ addressToken: "sls_good" }, { authorization: "Bearer sls_good" }])("says who calls: %o", async (given) => {
    const access = await identity.identify("p", shows(given));
    expect(access).toMatchObject({ subject: "alice", isAdmin: false, isConfined: true, untilMs: world.now() + 1 });
  });

  it("is refused when it is bad, another project's or another kind of token", async () => {
    for (const [project, addressToken] of [
      ["p", "sls_bad"],
      ["p", "other"],
      ["q", "sls_good"],
      [undefined, "sls_good"],
    ] as const) {
      expect(await codeOf(() => identity.identify(project, shows({ addressToken })))).toBe("token-invalid");
    }
  });

  it("is refused when it has expired", async () => {
    expect(await codeOf(() => identity.identify("p", shows({ addressToken: "sls_good-old" })))).toBe("token-expired");
  });
});

it("an ordinary token is refused in the address and accepted in the header", async () => {
  const token = await mint(SECRET, { scope: "read", ttlSeconds: 60 }, world.now());
  const identity = identities["with keys"];
  expect(await codeOf(() => identity.identify("p", shows({ addressToken: token })))).toBe("token-invalid");
  expect(await codeOf(() => identity.identify("p", shows({ authorization: `Bearer ${token}` })))).toBe("taken");
});

it("a session token in the address does not count beside a header", async () => {
  const credentials = shows({ authorization: "Bearer nonsense", addressToken: "sls_good" });
  expect(await codeOf(() => identities["with keys"].identify("p", credentials))).toBe("token-invalid");
});

describe("the holder of a session token", () => {
  const LIVE = { action: "x", need: "read-or-write", bySession: "session", project: "p" } as const;
  const READ = { action: "stream.read", need: "read", bySession: "subscribed", project: "p" } as const;
  const demands: readonly (readonly [string, Action, "allowed" | "forbidden"])[] = [
    ["acts on its session", { ...LIVE, session: "s" }, "allowed"],
    ["may name its session later", LIVE, "allowed"],
    ["does not act on another session", { ...LIVE, session: "t" }, "forbidden"],
    ["subscribes its session within its filters", { ...LIVE, session: "s", stream: "a/c" }, "allowed"],
    ["does not subscribe it elsewhere", { ...LIVE, session: "s", stream: "b" }, "forbidden"],
    ["reads a stream that its session subscribes to", { ...READ, stream: "a/b" }, "allowed"],
    ["reads its own inbox", { ...READ, stream: "session:s", session: "s" }, "allowed"],
    ["does not read another stream", { ...READ, stream: "a/c" }, "forbidden"],
    ["does nothing else", { action: "y", need: "read", project: "p", stream: "a/b" }, "forbidden"],
    ["does not write without the scope", { ...LIVE, need: "write" }, "forbidden"],
    ["stays within its project", { ...LIVE, project: "q" }, "forbidden"],
  ];
  it.each(demands)("%s", async (_, action, verdict) => {
    const access = await identities["with keys"].identify("p", shows({ addressToken: "sls_good" }));
    const code = await codeOf(async () => access.demand(action));
    expect(code).toBe(verdict === "allowed" ? "taken" : "forbidden");
  });
});

it("with auth off a caller without a session token may do everything", async () => {
  expect(identities["with auth off"].identify("p", shows({}))).toBe(FULL_ACCESS);
});

it("a cookie identifies like a header, and no credentials at all are refused", async () => {
  const token = await mint(SECRET, { scope: "read", ttlSeconds: 60, sub: "bob" }, world.now());
  const identity = tokenIdentity();
  expect(await identity.identify("p", shows({ cookieToken: token }))).toMatchObject({ subject: "bob" });
  expect(await codeOf(() => identity.identify("p", shows({})))).toBe("unauthenticated");
});
