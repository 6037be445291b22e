import { describe, expect, it } from "vitest";
import { type Access, FULL_ACCESS } from "../core/action.ts";
import type { HttpRequest } from "../core/http.ts";
import { NO_HEAD } from "../engine/contract.ts";
import { LIST_LIMITS } from "./defaults.ts";
import { listStreams } from "./listing.ts";
import type { Streams } from "./service.ts";

/** Streams that exist by name only, and how often they were asked for. */
class Named {
  pages = 0;
  described = 0;

  constructor(
    private readonly names: readonly string[],
    private readonly isExpired: (path: string) => boolean = () => false,
  ) {}

  async list(_project: string, prefix: string, after: string, limit: number) {
    this.pages++;
    const rest = this.names.filter((name) => name.startsWith(prefix) && name > after);
    const ids = rest.slice(0, limit);
    return { ids, next: rest.length > limit ? ids.at(-1) : undefined };
  }

  async describe(_project: string, path: string) {
    this.described++;
    if (this.isExpired(path)) return { kind: "absent", over: true };
    return { kind: "live", meta: { config: { contentType: "text/plain" } }, head: NO_HEAD };
  }
}

interface Page {
  readonly streams: { readonly path: string }[];
  readonly next?: string;
}

async function listed(streams: Named, search: string, access: Access = FULL_ACCESS): Promise<Page> {
  const call = { project: "p", access } as Parameters<typeof listStreams>[1];
  const reply = await listStreams(streams as unknown as Streams, call, { search } as HttpRequest, LIST_LIMITS);
  return JSON.parse(String(reply.body));
}

const numbered = (count: number) => Array.from({ length: count }, (_, i) => `s/${String(i).padStart(6, "0")}`);

describe("a request for a page", () => {
  it.each([1, 100, 1_000])(
    "asks the engine a few times, whatever its limit, if no name matches (%i)",
    async (limit) => {
      const streams = new Named(numbered(3_000));
      expect(await listed(streams, `limit=${limit}&filter=%2B/none`)).toEqual({ streams: [] });
      expect(streams.pages).toBeLessThanOrEqual(4);
    },
  );

  it("asks once for the first entry, and says that there are more", async () => {
    const streams = new Named(numbered(3_000));
    expect(await listed(streams, "limit=1")).toMatchObject({ streams: [{ path: "s/000000" }], next: "s/000000" });
    expect(streams).toMatchObject({ pages: 1, described: 1 });
  });

  it("ends with an empty page and a place to continue once it has examined enough names", async () => {
    const names = [...numbered(25_000), "s/last"];
    const streams = new Named(names);
    const sizes: number[] = [];
    let page: Page = { streams: [], next: "" };
    while (page.next !== undefined) {
      page = await listed(streams, `limit=1&filter=s/last&prefix=s/&after=${page.next}`);
      sizes.push(page.streams.length);
    }
    expect(sizes).toEqual([0, 0, 1]);
    expect(streams.pages).toBeLessThanOrEqual(3 * 12);
  });

  it("describes a bounded number of streams, though expired ones fill no page", async () => {
    const streams = new Named(numbered(2_500), (path) => path !== "s/002400");
    const first = await listed(streams, "limit=5");
    expect(first).toEqual({ streams: [], next: "s/000999" });
    expect(streams.described).toBe(1_000);
    const second = await listed(streams, `limit=5&after=${first.next}`);
    expect(await listed(streams, `limit=5&after=${second.next}`)).toMatchObject({ streams: [{ path: "s/002400" }] });
  });

  it("does not look again at prefixes of the token that earlier pages have passed", async () => {
    const streams = new Named(["a/1", "b/1", "c/1", "c/2"]);
    const access: Access = { ...FULL_ACCESS, prefixes: ["c/", "a/", "b/"] };
    const first = await listed(streams, "limit=3", access);
    expect(first.next).toBe("c/1");
    streams.pages = 0;
    expect(await listed(streams, `limit=3&after=${first.next}`, access)).toMatchObject({ streams: [{ path: "c/2" }] });
    expect(streams.pages).toBe(1);
  });
});
