/**
 * A registry for npm that has published the given tarballs, and nothing else. The test of the packages installs from it, as a
 * stranger does from the public one: npm then unpacks a tarball once, where it unpacks one that is given by its path three times.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename } from "node:path";

export interface Registry {
  readonly url: string;
  close(): void;
}

export async function openRegistry(tarballs: readonly string[]): Promise<Registry> {
  const answers = new Map<string, Buffer | string>();
  const server = createServer((request, response) => {
    const answer = answers.get(decodeURIComponent(request.url!));
    // Else npm would keep it for a later registry on the same port.
    response.writeHead(answer === undefined ? 404 : 200, { "Cache-Control": "no-store" }).end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const path of tarballs) {
    const bytes = readFileSync(path);
    const file = `/${basename(path)}`;
    const manifest = JSON.parse(execFileSync("tar", ["-xzOf", path, "package/package.json"], { encoding: "utf8" }));
    const { name, version } = manifest;
    const integrity = `sha512-${createHash("sha512").update(bytes).digest("base64")}`;
    const versions = { [version]: { ...manifest, dist: { tarball: url + file, integrity } } };
    answers.set(file, bytes);
    answers.set(`/${name}`, JSON.stringify({ name, versions, "dist-tags": { latest: version } }));
  }
  return { url, close: () => server.close() };
}
