/**
 * The web server of an example: a page of three files that talks to Sluice, and the actions that the page may request. Every
 * example starts one.
 *
 * Invariants: the page loads its files from this server only, and talks to no server but this one and Sluice.
 */
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const HOST = "127.0.0.1";
const MAX_BODY_BYTES = 4_096;

/** The head of every page, before its title. */
const HEAD = `
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%230b8a83' stroke-width='3' stroke-linecap='round'%3E%3Cpath d='M3 7c3-3 6 3 9 0s6 3 9 0M3 16c3-3 6 3 9 0s6 3 9 0'/%3E%3C/svg%3E" />
    <link rel="stylesheet" href="/page.css" />
    <script type="module" src="/page.js"></script>`;

export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent unchanged, any other value as JSON. */
  readonly body?: unknown;
}

const NOTHING: Answer = { status: 404, body: "There is nothing here." };
/** A browser that asks before the page is there asks again by itself. */
const STARTING: Answer = { status: 503, headers: { Refresh: "1", "Retry-After": "1" }, body: "Starting …" };

type Deed = (body: string) => Promise<Answer>;

interface WebFile {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export class PageServer {
  private readonly files = new Map<string, WebFile>();
  private readonly deeds = new Map<string, Deed>();

  private constructor(private readonly server: Server) {
    server.on("request", (request, response) => void this.answer(request, response));
  }

  /** Port 0 takes a free one. */
  static async listen(port: number): Promise<PageServer> {
    const server = createServer();
    await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, HOST, resolve));
    return new PageServer(server);
  }

  private get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://${HOST}:${this.port}/`;
  }

  /** Registers the action of a POST to this path. */
  on(path: string, deed: Deed): void {
    this.deeds.set(path, deed);
  }

  /**
   * Serves the page of a folder as a browser needs it: TypeScript and the client in one file, with the address of Sluice.
   */
  async show(folder: URL, sluiceUrl: string): Promise<void> {
    const path = (name: string) => fileURLToPath(new URL(name, folder));
    const { outputFiles } = await build({
      entryPoints: [path("page.ts"), path("page.css")],
      define: { SLUICE_URL: JSON.stringify(sluiceUrl) },
      outdir: path("."),
      bundle: true,
      write: false,
      format: "esm",
      target: "es2022",
    });
    const [script, style] = outputFiles;
    const sluice = `${sluiceUrl} ${sluiceUrl.replace(/^http/, "ws")}`;
    const policy = `default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' ${sluice}`;
    const put = (name: string, type: string, body: Uint8Array) =>
      this.files.set(name, {
        headers: {
          "Content-Type": `${type}; charset=utf-8`,
          "Cache-Control": "no-cache",
          "Content-Security-Policy": policy,
        },
        body,
      });
    const page = await readFile(path("index.html"), "utf8");
    put("/", "text/html", Buffer.from(page.replace("<head>", `<head>${HEAD}`)));
    put("/page.js", "text/javascript", script!.contents);
    put("/page.css", "text/css", style!.contents);
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? "/").split("?", 1)[0]!;
    const file = request.method === "GET" ? this.files.get(path) : undefined;
    if (file !== undefined) {
      response.writeHead(200, file.headers).end(file.body);
      return;
    }
    try {
      const deed = request.method === "POST" ? this.deeds.get(path) : undefined;
      const answer = deed ? await deed(await bodyOf(request)) : this.files.size === 0 ? STARTING : NOTHING;
      const isText = typeof answer.body === "string";
      const type = isText ? "text/plain; charset=utf-8" : "application/json";
      response.writeHead(answer.status, { "Content-Type": type, ...answer.headers });
      response.end(isText ? answer.body : JSON.stringify(answer.body ?? {}));
    } catch (error) {
      console.error(error);
      response.writeHead(500).end("Something went wrong.");
    }
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Truncates a body that is longer than any the page sends; it is then invalid JSON. */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    if (size < MAX_BODY_BYTES) pieces.push(piece);
    size += piece.length;
  }
  return Buffer.concat(pieces).subarray(0, MAX_BODY_BYTES).toString("utf8");
}
