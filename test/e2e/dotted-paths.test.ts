/**
 * Paths with a level of dots. Clients resolve `a/../b` before they ask, so a stream of that name could be made by hand and then
 * be addressed by nobody; it is refused wherever a path can be given.
 */
import { beforeAll, expect, test } from "vitest";
import { RawConnection, type RawResponse } from "./raw-http.ts";
import { closeAfterSuite, type Fixture, openServer } from "./server.ts";

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openServer("memory");
});
closeAfterSuite(() => fixture);

const json = "Content-Type: application/json\r\n";

test.each(["..", ".", "a/..", "../a", "a/../b", "a/./b", "a/%2e%2e/b", "a/%2E", "a%2F..%2Fb"])(
  "%s is refused by its name in every address, and nothing is made",
  async (path) => {
    const { port, url } = fixture;
    const connection = await RawConnection.open(port);
    const ask = async (line: string, headers = "", body = "") => {
      connection.send(`${line} HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`);
      return (await connection.answer(line.split(" ")[0])) as RawResponse;
    };
    for (const method of ["PUT", "POST", "GET", "DELETE"]) {
      for (const start of ["/v1/stream/", "/v1/shop/stream/"]) {
        const { status, body } = await ask(`${method} ${start}${path}`);
        expect(status, `${method} ${start}${path}`).toBe(400);
        const problem = JSON.parse(body.toString());
        expect(problem).toMatchObject({ code: "bad-path" });
        expect(problem.detail).toContain(decodeURIComponent(path));
      }
    }
    const forked = await ask("PUT /v1/stream/fork", `Stream-Forked-From: /v1/stream/${path}\r\n`);
    expect(forked.status).toBe(400);
    const wake = JSON.stringify({ type: "pull-wake", streams: [decodeURIComponent(path)], wake_stream: "w" });
    expect((await ask("PUT /v1/stream/__ds/subscriptions/s", json, wake)).status).toBe(400);
    expect(await (await fetch(`${url}/v1/default/streams`)).json()).toMatchObject({ streams: [] });
    connection.destroy();
  },
);

test.each(["...", "a/.b", "a/b.", ".hidden", "a..b", "v1.2/c"])("%s is a path like any other", async (path) => {
  const { url } = fixture;
  expect((await fetch(`${url}/v1/stream/${path}`, { method: "PUT" })).status).toBe(201);
  expect((await fetch(`${url}/v1/stream/${path}`)).status).toBe(200);
});
