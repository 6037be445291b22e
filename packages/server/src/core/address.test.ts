import { expect, test } from "vitest";
import { type AddressKind, addressKind, isLoopbackHost } from "./address.ts";

const KINDS: Readonly<Record<AddressKind, string>> = {
  public: "8.8.8.8 93.184.216.34 9.255.255.255 11.0.0.0 172.32.0.1 100.128.0.1 2606:4700::1111 2a00:1450::1",
  private:
    "10.0.0.1 10.255.255.255 100.64.0.0 100.127.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 fc00::1 fd00::1 fdff::1",
  loopback: "127.0.0.1 127.255.255.255 ::1 0:0:0:0:0:0:0:1",
  special:
    "0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 168.63.129.16 100.100.100.200 192.0.0.8 192.0.2.1 192.88.99.1 198.19.0.1 " +
    "198.51.100.1 203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 :: ::8.8.8.8 ::ffff:8.8.8.8 ::ffff:127.0.0.1 " +
    "::ffff:7f00:1 fe80::1 fec0::1 ff02::1 2001:db8::1 2001::1 2002:0808:0808::1 64:ff9b::808:808 64:ff9b::a00:1 100::1 3fff::1 " +
    "fd00:ec2::254 fd20:ce::254",
};

test.each(Object.entries(KINDS))("a %s address is recognized", (kind, addresses) => {
  for (const address of addresses.split(" ")) expect(addressKind(address), address).toBe(kind);
});

test("any other text is not an address", () => {
  const texts = ["", "example.com", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1:2:3", "1::2::3", ":::", "12345::", "::1.2.3"];
  for (const text of [...texts, "fe80::1%eth0", "[::1]", "0x7f.1", "2130706433"]) {
    expect(addressKind(text), text).toBeUndefined();
  }
});

test("this machine is recognized by its names and by its addresses, wrapped in IPv6 too", () => {
  const local = ["localhost", "a.localhost", "127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"];
  for (const host of local) expect(isLoopbackHost(host), host).toBe(true);
  const others = [
    "localhost.example.com",
    "evil-localhost",
    "127.0.0.1.example.com",
    "0.0.0.0",
    "::ffff:8.8.8.8",
    "::",
    "",
  ];
  for (const host of others) expect(isLoopbackHost(host), host).toBe(false);
});
