/**
 * Runs the `sluice` commands of the shells in the thread that all tests of a worker share. `prelude.sh` sends arguments, environment
 * and standard input, and gets output and exit code.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { sluice } from "../support/sluice-process.ts";

const decoded = (request: IncomingMessage, name: string): string =>
  Buffer.from(String(request.headers[name] ?? ""), "base64").toString();

export interface Relay {
  readonly url: string;
  close(): void;
}

export async function openRelay(): Promise<Relay> {
  const server = createServer(async (request, response) => {
    const args = decoded(request, "args").split("\0").slice(0, -1);
    const variables = decoded(request, "env").split("\n").filter(Boolean);
    const env = Object.fromEntries(variables.map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]));
    const stdin = await buffer(request);
    try {
      const { code, stdout, stderr } = await sluice(args, { stdin, env });
      response.writeHead(200, { Code: String(code), Said: Buffer.from(stderr).toString("base64") }).end(stdout);
    } catch (fault) {
      response.writeHead(200, { Code: "99", Said: Buffer.from(String(fault)).toString("base64") }).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => void server.close() };
}
