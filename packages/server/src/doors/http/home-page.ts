/**
 * What `GET /` answers: what this server is and where to go, as a page for a browser and as JSON for programs. The server routes
 * call it.
 *
 * Invariants: it shows what every caller may know, and nothing of the request but the prefix that the server is mounted at. The
 * page loads nothing and runs no script.
 */
import { header } from "@sluice/protocol";
import type { HttpRequest, Reply } from "../../core/http.ts";

export const REPOSITORY = "https://github.com/sluice/sluice";

const STYLE = `
:root { color-scheme: light dark; --ink: #14213d; --soft: #5b6475; --line: #d9dee8; --paper: #fbfcfe; --accent: #0b62d6 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf5; --soft: #9aa5b8; --line: #2b3446; --paper: #10151f; --accent: #7db2ff } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 24px; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, sans-serif }
main { width: 100%; max-width: 560px }
h1 { margin: 0; font-size: 40px; letter-spacing: -0.03em; line-height: 1.1 }
h1 small { font-size: 14px; letter-spacing: 0; font-weight: 500; color: var(--soft); margin-left: 8px }
p { margin: 8px 0 24px; color: var(--soft) }
ul { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line) }
li { border-bottom: 1px solid var(--line) }
a { display: flex; flex-wrap: wrap; gap: 0 16px; justify-content: space-between; padding: 12px 0; color: var(--ink); text-decoration: none }
a:hover b, a:focus-visible b { text-decoration: underline }
b { font-weight: 600; color: var(--accent) }
span { color: var(--soft) }
pre { margin: 24px 0 0; padding: 16px; border: 1px solid var(--line); border-radius: 8px; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 13px/1.6 ui-monospace, monospace }
`;

/** Of STYLE; a test compares them. */
const STYLE_SHA256 = "elNflEwWIJTb8U2RMpRM5c0u2jTvzPKAG+kKNRIF20k=";
const POLICY = `default-src 'none'; style-src 'sha256-${STYLE_SHA256}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
const WHAT = "One durable log, every way to subscribe.";

export function homePage(request: HttpRequest, version: string): Reply {
  const { prefix = "" } = request;
  const headers = [header.vary, "Accept", header.cacheControl, "public, max-age=300"];
  if (!/\btext\/html\b/i.test(request.header("accept") ?? "")) {
    headers.push(header.contentType, "application/json");
    return { status: 200, headers, body: asJson(prefix, version) };
  }
  headers.push(header.contentType, "text/html; charset=utf-8", "Content-Security-Policy", POLICY);
  return { status: 200, headers, body: asHtml(prefix, version) };
}

function asJson(prefix: string, version: string): string {
  return JSON.stringify({
    name: "sluice",
    version,
    description: WHAT,
    streams: `${prefix}/v1/stream/{path}`,
    openapi: `${prefix}/openapi.json`,
    health: `${prefix}/health`,
    ready: `${prefix}/ready`,
    documentation: REPOSITORY,
  });
}

function asHtml(prefix: string, version: string): string {
  const link = (href: string, name: string, what: string) =>
    `<li><a href="${escaped(href)}"><b>${name}</b> <span>${what}</span></a></li>`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice</title>
<style>${STYLE}</style>
<main>
<h1>Sluice<small>${escaped(version)}</small></h1>
<p>${WHAT}</p>
<ul>
${link(REPOSITORY, "Documentation", "guides, guarantees, examples")}
${link(`${prefix}/openapi.json`, "OpenAPI", "every route of this server")}
${link(`${prefix}/health`, "Health", "is the process alive?")}
${link(`${prefix}/ready`, "Readiness", "does it accept requests?")}
</ul>
<pre>npx sluice stream create greetings
npx sluice stream append greetings hello
npx sluice stream tail greetings --from beginning</pre>
</main>
</html>
`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}
