/**
 * Everything behind the page, in one process: a Sluice server, a web server for three files, and the publisher of the answers.
 * `main.ts` starts it.
 *
 * What must stay true: an answer is written to its end whoever watches; the number of answers in the making is bounded.
 */
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer as createWebServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { Sluice } from "@sluice/client";
import { createServer as createSluice } from "@sluice/server";
import { build } from "esbuild";
import { type Model, madeUpModel } from "./answer.ts";

export interface ExampleOptions {
  /** Of the page; any free one by default. */
  readonly port?: number | undefined;
  readonly model?: Model | undefined;
  /** Where browsers find Sluice, when something stands in between. */
  readonly publicUrl?: ((sluiceUrl: string) => Promise<string>) | undefined;
}

export interface RunningExample {
  /** Of the page. */
  readonly url: string;
  readonly sluiceUrl: string;
  /** Connections that follow an answer at this moment. */
  readonly viewers: number;
  close(): Promise<void>;
}

interface WebFile {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const HOST = "127.0.0.1";
const ANSWERS_AT_ONCE = 32;

export async function startExample({
  port = 0,
  model = madeUpModel,
  publicUrl,
}: ExampleOptions = {}): Promise<RunningExample> {
  const files = new Map<string, WebFile>();
  const inTheMaking = new Set<Promise<void>>();
  const closing = new AbortController();

  const web = createWebServer(answerRequests(files, ask));
  await new Promise<void>((resolve, reject) => web.once("error", reject).listen(port, HOST, resolve));
  const page = (web.address() as AddressInfo).port;

  // Nothing is kept on disk. The page has another origin than Sluice, so Sluice is told to let it read.
  const server = await createSluice({
    port: 0,
    memory: true,
    cors: { origins: [`http://${HOST}:${page}`, `http://localhost:${page}`] },
    channel: { ttlMs: 10 * 60_000 },
  });
  const sluice = new Sluice({ url: server.url });
  await bundlePage(files, (await publicUrl?.(server.url)) ?? server.url);

  /** Opens a channel and leaves the publisher to itself: nothing ties it to the request, or to the tab that made it. */
  async function ask(): Promise<string | undefined> {
    if (inTheMaking.size >= ANSWERS_AT_ONCE) return undefined;
    const id = randomUUID();
    const answer = sluice.channel(id).publisher({ start: { model: "made-up-1" } });
    const publishing = (async () => {
      try {
        // Small requests, 16 a second, each repeated until it is acknowledged: the publisher sees to that.
        for await (const token of model(closing.signal)) await answer.write(token);
        await answer.end();
      } catch (error) {
        // Readers are told. If not even that works, they see the end of the server itself.
        await answer.fail(error).catch(() => {});
      }
    })();
    inTheMaking.add(publishing);
    void publishing.finally(() => inTheMaking.delete(publishing));
    // The channel is there before anybody is told of it.
    await answer.flush();
    return id;
  }

  async function close(): Promise<void> {
    closing.abort(new Error("the example was stopped"));
    await Promise.all(inTheMaking);
    web.closeAllConnections();
    await new Promise((resolve) => web.close(resolve));
    await server.close();
  }

  return {
    url: `http://${HOST}:${page}/`,
    sluiceUrl: server.url,
    get viewers() {
      return server.live.readers;
    },
    close,
  };
}

/** The page as a browser gets it: TypeScript and the client in one file, and where Sluice is. */
async function bundlePage(files: Map<string, WebFile>, sluiceUrl: string): Promise<void> {
  const path = (name: string) => fileURLToPath(new URL(`page/${name}`, import.meta.url));
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
  // The page loads nothing from anywhere else, and talks to nobody else.
  const policy = `default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' ${sluiceUrl}`;
  const put = (name: string, type: string, body: Uint8Array) =>
    files.set(name, {
      headers: {
        "Content-Type": `${type}; charset=utf-8`,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": policy,
      },
      body,
    });
  put("/", "text/html", await readFile(path("index.html")));
  put("/page.js", "text/javascript", script!.contents);
  put("/page.css", "text/css", style!.contents);
}

function answerRequests(files: ReadonlyMap<string, WebFile>, ask: () => Promise<string | undefined>): RequestListener {
  const handle: RequestListener = async ({ method, url = "/" }, response) => {
    const path = url.split("?", 1)[0]!;
    const file = method === "GET" ? files.get(path) : undefined;
    if (file !== undefined) {
      response.writeHead(200, file.headers).end(file.body);
    } else if (method === "POST" && path === "/ask") {
      const id = await ask();
      if (id === undefined) response.writeHead(503, { "Retry-After": "10" }).end("Too many answers at once.");
      else response.writeHead(201, { "Content-Type": "application/json" }).end(JSON.stringify({ id }));
    } else response.writeHead(404).end("There is nothing here.");
  };
  return async (request, response) => {
    try {
      await handle(request, response);
    } catch (error) {
      console.error(error);
      response.writeHead(500).end("Something went wrong.");
    }
  };
}
