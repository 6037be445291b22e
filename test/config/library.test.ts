import { ConfigError, createServer, type ServerOptions } from "@sluice/server";
import { describe, expect, it, onTestFinished } from "vitest";
import { exposureOf, isLoopback } from "../../packages/server/src/config/cross-checks.ts";
import { withDefaults } from "../../packages/server/src/server-options.ts";
import { dirForTest } from "../support/sluice-process.ts";

const SECRET = "x".repeat(32);

async function serving(options: ServerOptions) {
  const server = await createServer({ port: 0, log: false, ...options });
  onTestFinished(() => server.close());
  return server;
}

const put = (url: string, body: string) =>
  fetch(`${url}/v1/stream/a`, { method: "PUT", headers: { "Content-Type": "text/plain" }, body });

describe("several servers in one process", () => {
  it("share nothing: each has its data and its settings, and one stops while the others serve", async () => {
    const [dir, otherDir] = [dirForTest(), dirForTest()];
    const first = await serving({ data: dir, stream: { bodyBytes: 10 } });
    const second = await serving({ data: otherDir, longPollMs: 100 });
    const third = await serving({ memory: true });
    for (const [i, { url }] of [first, second, third].entries()) expect((await put(url, `of ${i}`)).status).toBe(201);
    const post = (url: string) =>
      fetch(`${url}/v1/stream/a`, { method: "POST", headers: { "Content-Type": "text/plain" }, body: "eleven chars" });
    expect([(await post(first.url)).status, (await post(second.url)).status]).toEqual([413, 204]);

    const waiting = fetch(`${second.url}/v1/stream/a?offset=now&live=long-poll`);
    await first.close();
    expect((await waiting).status).toBe(204);
    await expect(fetch(`${first.url}/health`)).rejects.toThrow();
    expect(await (await fetch(`${second.url}/v1/stream/a`)).text()).toBe("of 1eleven chars");
    expect(await (await fetch(`${third.url}/v1/stream/a`)).text()).toBe("of 2");
    expect((await fetch(`${third.url}/ready`)).status).toBe(200);

    // The directory is free again, while its process lives on.
    const again = await serving({ data: dir });
    expect(await (await fetch(`${again.url}/v1/stream/a`)).text()).toBe("of 0");
  });
});

describe("options", () => {
  it.each([
    [{ live: { readers: 1 } }, /live\.readers .*did you mean tail\.readers\?/],
    [{ prot: 1 }, /prot .*did you mean port\?/],
    [{ stream: { bodyByte: 1 } }, /stream\.bodyByte .*did you mean stream\.bodyBytes\?/],
    [{ port: "80" }, /port \(from the options\) is "80"; it must be a whole number/],
    [{ drainMs: Number.NaN }, /drainMs .*it must be a whole number of milliseconds/],
    [{ cors: { origins: ["nonsense"] } }, /cors\.origins .*it must be a list of origins/],
    [{ data: undefined }, /data is undefined; .*memory: true/],
    [{ data: "x", memory: true }, /exclude each other/],
  ])("that are malformed are refused with their name: %j", async (options, named) => {
    const made = createServer({ port: 0, ...options } as ServerOptions);
    made.then((server) => server.close()).catch(() => {});
    await expect(made).rejects.toThrow(named);
    await expect(made).rejects.toBeInstanceOf(ConfigError);
  });

  it.each([[null], [5], ["port"], [[]], [true]])("that are not an object are refused: %j", async (options) => {
    const made = createServer(options as unknown as ServerOptions);
    made.then((server) => server.close()).catch(() => {});
    await expect(made).rejects.toThrow("the options must be an object");
    await expect(made).rejects.toBeInstanceOf(ConfigError);
  });

  it("are all reported at once", () => {
    const wrong = { port: -1, stream: { bodyBytes: 0 }, nothing: 1 } as ServerOptions;
    expect(() => withDefaults(wrong)).toThrow(/port[\s\S]*stream\.bodyBytes[\s\S]*nothing|nothing[\s\S]*port/);
  });
});

describe("a port that is in use", () => {
  it("is named in the error", async () => {
    const first = await createServer({ port: 0, memory: true, log: false });
    onTestFinished(() => first.close());
    const second = createServer({ port: first.port, memory: true, log: false });
    await expect(second).rejects.toThrow(`port ${first.port} of 127.0.0.1 is in use`);
    await expect(second).rejects.toMatchObject({ code: "EADDRINUSE" });
  });
});

describe("a default that follows from other settings", () => {
  const KEYS = { a: { secrets: [SECRET] } };

  it("allows webhooks to this machine only on a loopback listener without keys and without a public address", () => {
    const allows = (options: ServerOptions) => withDefaults(options).webhook.allowLoopback;
    expect(allows({})).toBe(true);
    expect(allows({ host: "localhost", publicUrl: "http://localhost:8080" })).toBe(true);
    expect(allows({ auth: { off: true }, projects: KEYS })).toBe(true);
    for (const guarded of [{ projects: KEYS }, { authorize: () => true }]) expect(allows(guarded)).toBe(false);
    expect(allows({ host: "0.0.0.0", auth: { off: true } })).toBe(false);
    expect(allows({ publicUrl: "https://streams.example.com" })).toBe(false);
    expect(allows({ projects: KEYS, webhook: { allowLoopback: true } })).toBe(true);
    expect(allows({ webhook: { allowLoopback: false } })).toBe(false);
  });

  it("gives a project half of a shared limit where several projects are configured, else all of it", () => {
    const share = (options: ServerOptions) => withDefaults(options).projectSharePercent;
    expect([share({}), share({ projects: KEYS })]).toEqual([100, 100]);
    expect(share({ projects: { ...KEYS, b: { secrets: [SECRET] } } })).toBe(50);
    expect(share({ projects: { ...KEYS, b: {} }, projectSharePercent: 80 })).toBe(80);
  });
});

describe("a server without keys", () => {
  it("listens on the loopback address only", async () => {
    for (const host of ["0.0.0.0", "::", "192.0.2.1", "example.com"]) {
      await expect(createServer({ port: 0, memory: true, host })).rejects.toThrow(/no keys are configured/);
    }
    for (const host of ["127.0.0.1", "localhost"]) {
      const { url } = await serving({ memory: true, host });
      expect((await fetch(`${url}/health`)).status).toBe(200);
    }
  });

  it("is refused in the words of an embedding program, which has no flags", async () => {
    const refused = createServer({ port: 0, memory: true, host: "0.0.0.0" });
    await expect(refused).rejects.toThrow(/projects\.default\.secrets.*auth\.off/);
    await expect(refused).rejects.not.toThrow(/--no-auth/);
  });

  it("listens on other addresses with auth.off", async () => {
    const { port } = await serving({ memory: true, host: "0.0.0.0", auth: { off: true } });
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200);
  });

  it("is told apart from a server with keys", () => {
    const kind = (options: ServerOptions) => exposureOf(withDefaults(options)).kind;
    expect(kind({})).toBe("local");
    expect(kind({ host: "0.0.0.0" })).toBe("refused");
    expect(kind({ host: "0.0.0.0", projects: { shop: {} } })).toBe("refused");
    expect(kind({ host: "0.0.0.0", projects: { shop: { secrets: [SECRET] } } })).toBe("guarded");
    expect(kind({ host: "0.0.0.0", projects: { shop: { jwks: "https://a.example/keys" } } })).toBe("guarded");
    expect(kind({ host: "0.0.0.0", auth: { off: true } })).toBe("open");
    expect(exposureOf(withDefaults({ host: "0.0.0.0" }), true).kind).toBe("guarded");
  });

  it("recognizes a loopback address in every form", () => {
    for (const host of ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"]) {
      expect(isLoopback(host), host).toBe(true);
    }
    for (const host of [
      "0.0.0.0",
      "::",
      "128.0.0.1",
      "127.0.0.1.example.com",
      "localhost.example.com",
      "",
      "1127.0.0.1",
    ]) {
      expect(isLoopback(host), host).toBe(false);
    }
  });
});
