import { expect, test } from "vitest";
import { checkWebhookUrl, mayConnect, type WebhookReach } from "../../packages/server/src/wakes/webhook-targets.ts";

const PUBLIC_ONLY: WebhookReach = { allowLoopback: false, allowPrivate: false };
const LOOPBACK: WebhookReach = { ...PUBLIC_ONLY, allowLoopback: true };
const PRIVATE: WebhookReach = { ...PUBLIC_ONLY, allowPrivate: true };
const EVERYTHING: WebhookReach = { allowLoopback: true, allowPrivate: true };

const isAllowed = (url: string, reach: WebhookReach) => checkWebhookUrl(url, reach).kind === "allowed";

test("webhooks go to https, or to http on this machine where that is allowed", () => {
  for (const url of ["https://example.com/hook", "https://example.com:8443/hook?x=1", "https://8.8.8.8/"]) {
    for (const reach of [PUBLIC_ONLY, EVERYTHING]) expect(isAllowed(url, reach), url).toBe(true);
  }
  const local = [
    "localhost:3000",
    "localhost.",
    "a.localhost",
    "127.0.0.1:3000",
    "127.9.8.7",
    "[::1]",
    "2130706433",
    "0x7f.1",
  ];
  for (const host of local) {
    expect(isAllowed(`http://${host}/hook`, LOOPBACK), host).toBe(true);
    expect(isAllowed(`http://${host}/hook`, PUBLIC_ONLY), host).toBe(false);
    expect(isAllowed(`http://${host}/hook`, PRIVATE), host).toBe(false);
  }
  for (const url of [
    "http://example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "not a url",
    "http://8.8.8.8/",
  ]) {
    expect(isAllowed(url, LOOPBACK), url).toBe(false);
  }
});

test("private networks are reached where that is allowed, by name and address, over http and https", () => {
  for (const host of ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "[fd00::1]", "0xa.1", "012.0.0.1"]) {
    for (const scheme of ["http", "https"]) {
      expect(isAllowed(`${scheme}://${host}:8080/hook`, PRIVATE), host).toBe(true);
      expect(isAllowed(`${scheme}://${host}:8080/hook`, LOOPBACK), host).toBe(false);
    }
  }
  expect(isAllowed("http://worker:8080/hook", PRIVATE)).toBe(true);
  expect(isAllowed("http://worker:8080/hook", LOOPBACK)).toBe(false);
  expect(isAllowed("http://8.8.8.8/hook", PRIVATE)).toBe(false);
});

test("special addresses are refused in every spelling, whatever is allowed", () => {
  const hosts = ["169.254.169.254", "0xa9fea9fe", "2852039166", "0.0.0.0", "0", "224.0.0.1", "100.100.100.200"];
  const v6 = ["[::]", "[::ffff:10.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:8.8.8.8]", "[fe80::1]", "[64:ff9b::a00:1]"];
  for (const host of [...hosts, ...v6, "[2002:a00:1::]", "[fd00:ec2::254]"]) {
    for (const scheme of ["http", "https"]) expect(isAllowed(`${scheme}://${host}/`, EVERYTHING), host).toBe(false);
  }
});

test("https never goes to this machine", () => {
  for (const host of ["localhost", "localhost.", "a.localhost", "127.0.0.1", "2130706433", "0177.0.0.1", "[::1]"]) {
    expect(isAllowed(`https://${host}/hook`, EVERYTHING), host).toBe(false);
  }
});

test("credentials in the URL are refused", () => {
  expect(isAllowed("https://user:secret@example.com/", EVERYTHING)).toBe(false);
  expect(isAllowed("https://user@example.com/", EVERYTHING)).toBe(false);
});

test("a refusal says what is allowed, and which settings allow more", () => {
  expect(checkWebhookUrl("http://10.0.0.1/", LOOPBACK)).toEqual({
    kind: "rejected",
    why: "webhook.url must be https to a public address, or http to localhost; the operator can set webhook.allowLoopback and webhook.allowPrivate",
  });
});

test("the address that a name resolves to decides at the connection, whatever the URL looked like", () => {
  const http = new URL("http://worker/");
  const https = new URL("https://example.com/");
  const rows: [URL, string, WebhookReach[]][] = [
    [https, "8.8.8.8", [PUBLIC_ONLY, LOOPBACK, PRIVATE, EVERYTHING]],
    [http, "8.8.8.8", []],
    [http, "127.0.0.1", [LOOPBACK, EVERYTHING]],
    [http, "::1", [LOOPBACK, EVERYTHING]],
    [https, "127.0.0.1", []],
    [http, "10.0.0.1", [PRIVATE, EVERYTHING]],
    [https, "fd00::1", [PRIVATE, EVERYTHING]],
    [https, "169.254.169.254", []],
    [http, "::ffff:127.0.0.1", []],
    [https, "no address", []],
  ];
  for (const [url, address, allowing] of rows) {
    const found = [PUBLIC_ONLY, LOOPBACK, PRIVATE, EVERYTHING].filter((reach) => mayConnect(url, address, reach));
    expect(found, `${url} ${address}`).toEqual(allowing);
  }
});
