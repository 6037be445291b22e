import { describe, expect, it } from "vitest";
import { ROUTES } from "../support/routes.ts";
import { type Answer, type Asked, AuthApp, OTHER_SECRET } from "./app.ts";
import { MATRIX, type Row } from "./matrix.ts";
import { signed } from "./signing.ts";

it("the matrix has a row for every route, and no other", () => {
  expect(Object.keys(MATRIX).sort()).toEqual([...ROUTES.keys()].sort());
  for (const [name, { method }] of Object.entries(MATRIX)) {
    expect(ROUTES.get(name)!.methods, name).toContain(method);
  }
});

it("a request is noted with its route and project, with and without a valid token", async () => {
  const app = new AuthApp();
  for (const [name, { method, target }] of Object.entries(MATRIX)) {
    await app.call(method, target);
    expect(app.last).toMatchObject({ route: name, project: target.startsWith("/v1/") ? "p" : undefined });
  }
  for (const [method, target] of [
    ["GET", "/nowhere"],
    ["PATCH", "/v1/p/stream/a"],
    ["GET", "/v1/a.b/stream/a"],
  ] as const) {
    await app.call(method, target);
    expect(app.last!.route).toBeUndefined();
  }
  await app.call("OPTIONS", "/v1/p/stream/a");
  expect(app.last!.route).toBe("preflight");
});

/** Prepares the row's request on an app of its own, so that no case that is let in depends on another. */
async function stage({ method, target, body, before }: Row) {
  const app = new AuthApp();
  const prepared = ((await before?.(app)) ?? {}) as Asked;
  const ask = (asked: Asked = {}): Promise<Answer> =>
    app.call(method, target, { body: prepared.body ?? body, ...asked });
  return { app, ask, prepared };
}

/** Prepares it once for all cases of the row that are refused: a refused request changes nothing, as the cases let in show. */
function stageOfRefusals(row: Row): () => ReturnType<typeof stage> {
  let staged: ReturnType<typeof stage> | undefined;
  return () => (staged ??= stage(row));
}

function expectRefusal(answer: Answer, status: number, code: string): void {
  expect(answer.text).toContain(code);
  expect(answer).toMatchObject({ status, body: { status, code } });
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  if (status === 401) expect(answer.headers["www-authenticate"]).toMatch(/^Bearer/);
}

const SCOPES = ["", "openid", "read", "write", "read write", "openid read", "metrics", "reader", "READ"];
const HOUR_MS = 3_600_000;

for (const [name, row] of Object.entries(MATRIX)) {
  const { lets, right } = row;
  if (lets === "every-caller") {
    it(`${name} lets every caller in, with any token`, async () => {
      const { app, ask } = await stage(row);
      for (const token of [undefined, "nonsense", await app.token({}, OTHER_SECRET)]) {
        expect(right).toContain((await ask({ token })).status);
      }
    });
    continue;
  }
  if (lets === "own-proof") {
    describe(`${name}, which needs the token of the wake,`, () => {
      it("lets in the caller with that token", async () => {
        const { ask, prepared } = await stage(row);
        const answer = await ask({ token: prepared.token });
        expect(right, answer.text).toContain(answer.status);
      });

      it("refuses every other token, an admin's included", async () => {
        const { app, ask } = await stage(row);
        for (const token of [undefined, "a.b", await app.token({ scope: "admin" })]) {
          expectRefusal(await ask({ token }), 401, "token-invalid");
        }
      });
    });
    continue;
  }
  describe(name, () => {
    const refused = stageOfRefusals(row);
    it("answers 401 without a token", async () => {
      expectRefusal(await (await refused()).ask(), 401, "unauthenticated");
    });

    it("answers 401 to an expired token", async () => {
      const { app, ask } = await refused();
      const token = await app.token({ scope: "admin", ttlSeconds: 60 }, undefined, app.world.now() - HOUR_MS);
      expectRefusal(await ask({ token }), 401, "token-expired");
    });

    it("answers 401 to a token signed with another project's key", async () => {
      const { app, ask } = await refused();
      const token = await app.token({ scope: "admin" }, OTHER_SECRET);
      if (name === "metrics") expect(right).toContain((await ask({ token })).status);
      else expectRefusal(await ask({ token }), 401, "token-invalid");
    });

    it("answers 403 to a token for another project", async () => {
      const { app, ask } = await refused();
      const token = await app.token({ scope: "admin", project: "q" });
      if (name === "metrics") expect(right).toContain((await ask({ token })).status);
      else expectRefusal(await ask({ token }), 403, "forbidden");
    });

    for (const scope of SCOPES.filter((scope) => !lets.includes(scope))) {
      it(`answers 403 to the scope ${JSON.stringify(scope)}`, async () => {
        const { app, ask } = await refused();
        const token = tokenWithScope(app, scope);
        expectRefusal(await ask({ token }), 403, "forbidden");
      });
    }

    it(`is ${row.confined} to a token confined to other streams`, async () => {
      const { app, ask } = await stage(row);
      const elsewhere = row.inside === undefined ? ["a", "a/b/+"] : ["a/#", "channels", "channels/+"];
      for (const streams of [[], ["b/#"], ...elsewhere.map((filter) => [filter])]) {
        const answer = await ask({ token: await app.token({ scope: "admin read write", streams }) });
        if (row.confined === "allowed") return expect(right, answer.text).toContain(answer.status);
        if (row.confined === "hidden")
          expect(answer).toMatchObject({ status: 200, body: { [row.lists ?? "streams"]: [] } });
        else expectRefusal(answer, 403, "forbidden");
      }
    });

    for (const scope of [...lets, "admin"]) {
      it(`lets in the scope ${JSON.stringify(scope)}, after refused requests that changed nothing`, async () => {
        const { app, ask } = await stage(row);
        for (const token of [undefined, "x.y.z", await app.token({}, OTHER_SECRET)]) {
          if (name !== "metrics") expect((await ask({ token })).status).toBe(401);
        }
        const answer = await ask({ token: tokenWithScope(app, scope) });
        expect(right, answer.text).toContain(answer.status);
        expect(app.reports).toEqual([]);
      });
    }

    if (row.confined !== "forbidden" || name === "metrics") return;
    it("lets in a token confined to its streams", async () => {
      for (const streams of row.inside ?? [["a/#"], ["x", "a/+"], ["#"]]) {
        const { app, ask } = await stage(row);
        const answer = await ask({ token: await app.token({ streams, project: "p" }) });
        expect(right, answer.text).toContain(answer.status);
      }
    });
  });
}

/** Signs like the server does, with scope words that `mint` would refuse. */
function tokenWithScope(app: AuthApp, scope: string): string {
  return signed({ scope, exp: Math.floor(app.world.now() / 1_000) + 600 });
}
