import { expect, test } from "vitest";
import { checkWebhookUrl, isPublic, mayConnect } from "../../packages/server/src/wakes/targets.ts";

const allowed = (url: string, loopback = true) => checkWebhookUrl(url, loopback).kind === "allowed";

test("webhooks go to https, or to http on this machine where that is allowed", () => {
  expect(allowed("https://example.com/hook")).toBe(true);
  expect(allowed("https://example.com:8443/hook?x=1")).toBe(true);
  expect(allowed("http://localhost:3000/hook")).toBe(true);
  expect(allowed("http://127.0.0.1:3000/hook")).toBe(true);
  expect(allowed("http://127.9.8.7/hook")).toBe(true);
  expect(allowed("http://localhost:3000/hook", false)).toBe(false);
  expect(allowed("http://127.0.0.1:3000/hook", false)).toBe(false);
  for (const url of ["http://example.com/", "ftp://example.com/", "file:///etc/passwd", "not a url", "http://[::1]/"]) {
    expect(allowed(url), url).toBe(false);
  }
});

test("addresses inside are refused in every spelling", () => {
  const hosts = ["10.0.0.1", "127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "169.254.169.254", "192.168.1.1"];
  const more = ["172.16.0.1", "100.64.0.1", "0.0.0.0", "[::1]", "[::]", "[::ffff:10.0.0.1]", "[fd00::1]", "[fe80::1]"];
  const names = ["localhost", "localhost.", "a.localhost", "[::ffff:8.8.8.8]", "[64:ff9b::a00:1]", "[2002:a00:1::]"];
  for (const host of [...hosts, ...more, ...names]) expect(allowed(`https://${host}/hook`), host).toBe(false);
});

test("credentials in the URL are refused", () => {
  expect(allowed("https://user:secret@example.com/")).toBe(false);
  expect(allowed("https://user@example.com/")).toBe(false);
});

test("only addresses of the open internet are public", () => {
  for (const address of ["8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]) {
    expect(isPublic(address), address).toBe(true);
  }
  const v4 = [
    "0.1.2.3",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.2",
    "169.254.0.1",
    "172.31.255.255",
  ];
  const v4More = ["192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.19.0.1", "198.51.100.1", "203.0.113.9"];
  const v4Last = ["224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"];
  const v6 = [
    "::",
    "::1",
    "::ffff:8.8.8.8",
    "::8.8.8.8",
    "fc00::1",
    "fdff::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
  ];
  const v6More = ["2001:db8::1", "2001::1", "2002:0808:0808::1", "64:ff9b::808:808", "100::1", "3fff::1"];
  const garbage = [
    "",
    "example.com",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "1:2:3",
    "1::2::3",
    ":::",
    "12345::",
    "::1.2.3",
  ];
  for (const address of [...v4, ...v4More, ...v4Last, ...v6, ...v6More, ...garbage]) {
    expect(isPublic(address), address).toBe(false);
  }
});

test("plain http connects to this machine only, https never does", () => {
  const http = new URL("http://localhost/");
  const https = new URL("https://example.com/");
  expect(mayConnect(http, "127.0.0.1", true)).toBe(true);
  expect(mayConnect(http, "::1", true)).toBe(true);
  expect(mayConnect(http, "10.0.0.1", true)).toBe(false);
  expect(mayConnect(http, "8.8.8.8", true)).toBe(false);
  expect(mayConnect(http, "127.0.0.1", false)).toBe(false);
  expect(mayConnect(https, "127.0.0.1", true)).toBe(false);
  expect(mayConnect(https, "8.8.8.8", false)).toBe(true);
});
