import { createServer as createHttpServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import {
  type NodeWebhookOptions,
  NodeWebhookSender,
  type ResolvedAddress,
} from "../../packages/server/src/doors/webhook/node-webhook.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { manualWorld } from "../support/world.ts";

const v4 = (address: string): ResolvedAddress => ({ address, family: 4 });

/** Counts connections and says nothing. */
async function listener(host: string, port = 0): Promise<{ port: number; connections: () => number }> {
  let count = 0;
  const server = createTcpServer((socket) => {
    count++;
    socket.on("error", () => {});
    socket.destroy();
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, connections: () => count };
}

/** Listeners on the same port of 127.0.0.1 and 127.0.0.2. */
async function neighbours() {
  for (;;) {
    const first = await listener("127.0.0.1");
    const second = await listener("127.0.0.2", first.port).catch(() => undefined);
    if (second) return [first, second] as const;
  }
}

async function receiver(listen: RequestListener): Promise<string> {
  const server = createHttpServer(listen);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
}

function sender(options: Partial<NodeWebhookOptions> = {}): NodeWebhookSender {
  const made = new NodeWebhookSender({ world: realWorld(), allowLoopback: true, allowPrivate: false, ...options });
  onTestFinished(() => made.close());
  return made;
}

const request = (url: string) => ({
  url,
  headers: { "Content-Type": "application/json", "X-Mark": "m" },
  body: '{"a":"ü"}',
});

test("a request arrives as it was given, and its answer comes back", async () => {
  let seen: unknown;
  const url = await receiver((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const { method, headers } = incoming;
      seen = {
        method,
        url: incoming.url,
        type: headers["content-type"],
        mark: headers["x-mark"],
        body: `${Buffer.concat(chunks)}`,
      };
      outgoing.writeHead(202).end('{"done":true}');
    });
  });
  expect(await sender().send(request(url))).toEqual({ kind: "answered", status: 202, body: '{"done":true}' });
  expect(seen).toEqual({ method: "POST", url: "/hook", type: "application/json", mark: "m", body: '{"a":"ü"}' });
});

test("redirects are not followed", async () => {
  let redirected = 0;
  const target = await receiver((_, outgoing) => {
    redirected++;
    outgoing.end();
  });
  const url = await receiver((_, outgoing) => outgoing.writeHead(307, { location: target }).end());
  expect(await sender().send(request(url))).toMatchObject({ kind: "answered", status: 307 });
  expect(redirected).toBe(0);
});

test("of an answer at most 64 KiB are read, and nobody waits for the rest", async () => {
  const url = await receiver((_, outgoing) => {
    outgoing.writeHead(200);
    outgoing.write("x".repeat(100 * 1_024));
    // The rest never comes.
  });
  const answer = await sender().send(request(url));
  expect(answer).toEqual({ kind: "answered", status: 200, body: "x".repeat(64 * 1_024) });
});

test("an answer that does not come in time is a failure, and the connection goes", async () => {
  let arrive = () => {};
  let leave = () => {};
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const left = new Promise<void>((resolve) => (leave = resolve));
  const url = await receiver((incoming, outgoing) => {
    incoming.resume();
    outgoing.on("close", leave);
    arrive();
  });
  const world = manualWorld(1);
  let isOver = false;
  const answer = sender({ world })
    .send(request(url))
    .finally(() => (isOver = true));
  await arrived;
  world.advance(9_999);
  await Promise.resolve();
  expect(isOver).toBe(false);
  world.advance(1);
  expect(await answer).toEqual({ kind: "failed", why: "no response in time" });
  await left;
});

test("a name that takes too long to resolve is a failure", async () => {
  const world = manualWorld(1);
  const resolve = () => new Promise<ResolvedAddress[]>(() => {});
  const answer = sender({ world, resolve }).send(request("https://slow.example/"));
  world.advance(10_000);
  expect(await answer).toEqual({ kind: "failed", why: "no response in time" });
});

test("closing gives up what is in flight", async () => {
  let isThere = () => {};
  const arrived = new Promise<void>((resolve) => (isThere = resolve));
  const url = await receiver(() => isThere());
  const made = sender();
  const answer = made.send(request(url));
  await arrived;
  made.close();
  expect(await answer).toEqual({ kind: "failed", why: "the server is shutting down" });
});

test("a refused connection and an unknown name are failures", async () => {
  const { port } = await listener("127.0.0.1");
  const free = await listener("127.0.0.2");
  expect(await sender().send(request(`http://127.0.0.1:${port}/`))).toMatchObject({ kind: "failed" });
  const resolve = () => Promise.reject(new Error("ENOTFOUND"));
  const unknown = await sender({ resolve }).send(request(`https://nowhere.example:${free.port}/`));
  expect(unknown).toEqual({ kind: "failed", why: "the name cannot be resolved" });
});

test("a name that stands for an address inside is refused without any connection", async () => {
  const inside = await listener("127.0.0.1");
  const url = `https://innocent.example:${inside.port}/hook`;
  const forbidden = { kind: "failed", why: "the name resolves to an address that webhooks must not reach" };
  const addresses = ["10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.0.1", "100.64.0.1", "0.0.0.0", "224.0.0.1"];
  for (const address of addresses) {
    expect(await sender({ resolve: async () => [v4(address)] }).send(request(url)), address).toEqual(forbidden);
  }
  for (const address of ["::1", "::ffff:127.0.0.1", "fd00::1", "fe80::1"]) {
    const resolve = async () => [{ address, family: 6 }];
    expect(await sender({ resolve }).send(request(url)), address).toEqual(forbidden);
  }
  expect(await sender({ resolve: async () => [] }).send(request(url))).toEqual(forbidden);
  expect(inside.connections()).toBe(0);
});

test("where private networks are allowed, a name that stands for this machine or for a metadata service stays refused", async () => {
  const inside = await listener("127.0.0.1");
  const reach = { allowLoopback: false, allowPrivate: true };
  for (const address of ["127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "0.0.0.0"]) {
    const resolve = async () => [{ address, family: address.includes(":") ? 6 : 4 }];
    for (const scheme of ["http", "https"]) {
      const answer = await sender({ ...reach, resolve }).send(request(`${scheme}://worker:${inside.port}/`));
      expect(answer, address).toMatchObject({ why: "the name resolves to an address that webhooks must not reach" });
    }
  }
  expect(inside.connections()).toBe(0);
});

test("one address inside among public ones is enough to refuse", async () => {
  const resolve = async () => [v4("8.8.8.8"), v4("10.0.0.1")];
  expect(await sender({ resolve }).send(request("https://mixed.example/"))).toMatchObject({
    why: "the name resolves to an address that webhooks must not reach",
  });
});

test("localhost in development is this machine, whatever a name server says", async () => {
  const resolve = async () => [v4("10.0.0.1")];
  const answer = await sender({ resolve }).send(request("http://localhost:9/"));
  expect(answer).toMatchObject({ why: "the name resolves to an address that webhooks must not reach" });
});

test("plain http to this machine is refused where it is not allowed, also for old subscriptions", async () => {
  let asked = 0;
  const url = await receiver((_, outgoing) => {
    asked++;
    outgoing.end();
  });
  expect(await sender({ allowLoopback: false }).send(request(url))).toMatchObject({ kind: "failed" });
  expect(asked).toBe(0);
});

test("the connection goes to the address that was checked, even if the name stands for another by then", async () => {
  // For this test 127.0.0.2 is outside and 127.0.0.1 inside; both listen on the same port.
  const [inside, outside] = await neighbours();
  let lookups = 0;
  const resolve = async () => [v4(++lookups === 1 ? "127.0.0.2" : "127.0.0.1")];
  const mayConnect = (_: URL, address: string) => address === "127.0.0.2";
  const made = sender({ resolve, mayConnect });
  const url = `https://rebinding.example:${inside.port}/`;
  // Nobody there speaks TLS, so the request fails; what counts is who was connected to.
  expect(await made.send(request(url))).toMatchObject({ kind: "failed" });
  expect([lookups, outside.connections(), inside.connections()]).toEqual([1, 1, 0]);
  expect(await made.send(request(url))).toMatchObject({
    why: "the name resolves to an address that webhooks must not reach",
  });
  expect([lookups, outside.connections(), inside.connections()]).toEqual([2, 1, 0]);
});
