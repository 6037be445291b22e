import { describe, expect, it } from "vitest";
import { TestApp } from "../wakes/app.ts";
import { type Answer, AuthApp, OTHER_SECRET, SECRET } from "./app.ts";

/** Projects p and q are configured, so the share of each is half. */
class TwoTenants {
  constructor(readonly app: AuthApp) {}

  async ask(project: "p" | "q", method: string, path: string, body?: unknown): Promise<Answer> {
    const token = await this.app.token({}, project === "p" ? SECRET : OTHER_SECRET);
    return this.app.call(method, `/v1/${project}/${path}`, { token, body });
  }

  subscribe(project: "p" | "q", id: string, streams: readonly string[] = ["a"]): Promise<Answer> {
    const body = { type: "pull-wake", streams, wake_stream: "wakes" };
    return this.ask(project, "PUT", `stream/__ds/subscriptions/${id}`, body);
  }
}

function expectOwnLimit({ status, body, headers }: Answer, setting: string): void {
  expect([status, body.code]).toEqual([429, "project-limit"]);
  expect(body.detail).toContain(`the project p may have 2 `);
  expect(body.detail).toContain(setting);
  expect(headers["retry-after"]).toBe("1");
}

describe("a limit for all projects together", () => {
  it("keeps room for another project's wake subscriptions", async () => {
    const tenants = new TwoTenants(new AuthApp({ wake: { subscriptions: 4 } }));
    for (const id of ["1", "2"]) expect((await tenants.subscribe("p", id)).status).toBe(201);
    expectOwnLimit(await tenants.subscribe("p", "3"), "wake.subscriptions (4)");
    expect((await tenants.subscribe("p", "1")).status).toBe(200);
    for (const id of ["1", "2"]) expect((await tenants.subscribe("q", id)).status).toBe(201);
    await tenants.ask("p", "DELETE", "stream/__ds/subscriptions/1");
    expect((await tenants.subscribe("p", "3")).status).toBe(201);
  });

  it("keeps room for another project's links by name", async () => {
    const tenants = new TwoTenants(new AuthApp({ internal: { wake: { explicitLinks: 4 } } }));
    expect((await tenants.subscribe("p", "1", ["a", "b"])).status).toBe(201);
    const more = { streams: ["c"] };
    const added = await tenants.ask("p", "POST", "stream/__ds/subscriptions/1/streams", more);
    expectOwnLimit(added, "explicitLinks (4)");
    expect((await tenants.subscribe("q", "1", ["a", "b"])).status).toBe(201);
  });

  it("keeps room for another project's readers, of streams and channels", async () => {
    const tenants = new TwoTenants(new AuthApp({ tail: { readers: 4 } }));
    const start = { phase: "START", sequence: 0, payload: 1 };
    for (const project of ["p", "q"] as const) {
      await tenants.ask(project, "PUT", "stream/s");
      await tenants.ask(project, "POST", "channels/c/publish", start);
    }
    for (const project of ["p", "q"] as const) {
      expect((await tenants.ask(project, "GET", "stream/s?offset=-1&live=sse")).status).toBe(200);
      expect((await tenants.ask(project, "GET", "channels/c/events")).status).toBe(200);
      if (project === "p") {
        expectOwnLimit(await tenants.ask(project, "GET", "stream/s?offset=-1&live=sse"), "tail.readers (4)");
        expectOwnLimit(await tenants.ask(project, "GET", "channels/c/events"), "tail.readers (4)");
      }
    }
  });

  it("is all for a project that is configured alone", async () => {
    const lone = { projects: { p: { secrets: [SECRET] } }, tail: { readers: 2 }, wake: { subscriptions: 2 } };
    const tenants = new TwoTenants(new AuthApp(lone));
    await tenants.ask("p", "PUT", "stream/s");
    const read = () => tenants.ask("p", "GET", "stream/s?offset=-1&live=sse");
    expect([(await read()).status, (await read()).status]).toEqual([200, 200]);
    expect((await read()).body).toMatchObject({ status: 503, code: "too-many-waiters" });
    for (const id of ["1", "2"]) expect((await tenants.subscribe("p", id)).status).toBe(201);
    expect((await tenants.subscribe("p", "3")).body).toMatchObject({ status: 503, code: "overloaded" });
  });

  it("lets the webhooks of one project go while those of another hang", async () => {
    const app = await TestApp.open({ projectSharePercent: 50, internal: { wake: { deliveries: 2 } } });
    app.receiver.reply = () => new Promise(() => {});
    for (const [project, id] of ["slow/1", "slow/2", "quick/3"].map((name) => name.split("/"))) {
      const webhook = { url: "https://receiver.example/hook" };
      const config = { type: "webhook", pattern: "events/*", webhook };
      await app.call("PUT", `/v1/${project}/stream/__ds/subscriptions/${id}`, config);
    }
    await app.call("PUT", "/v1/slow/stream/events/a", [1]);
    await app.notified(1);
    await app.call("PUT", "/v1/quick/stream/events/a", [1]);
    await app.notified(2);
    expect(app.receiver.received.map(({ body }) => body.subscription_id)).toEqual(["1", "3"]);
  });
});
