import { expect, it } from "vitest";
import { acceptedEncoding } from "./accepted-encoding.ts";

it.each([
  ["", undefined],
  ["gzip", "gzip"],
  ["gzip, deflate, br, zstd", "zstd"],
  ["zstd;q=0.5, gzip", "gzip"],
  ["GZIP ; q=0.2", "gzip"],
  ["x-gzip", "gzip"],
  ["gzip;q=0", undefined],
  ["gzip;q=nonsense", undefined],
  ["*", "zstd"],
  ["*;q=0.1, zstd;q=0", "gzip"],
  ["identity, br", undefined],
])("a client that sends %j gets %s", (accept, encoding) => {
  expect(acceptedEncoding(accept, ["zstd", "gzip"])).toBe(encoding);
});
