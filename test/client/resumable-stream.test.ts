import { createResumableStreamContext, type ResumableStreamContext } from "@sluice/client/resumable-stream";
import type * as vercel from "resumable-stream/generic";
import { expect, expectTypeOf, test } from "vitest";
import { describeOnMemory, type EngineName, eventually, serverForTest } from "../e2e/server.ts";
import { dirForTest, serveInProcess } from "../support/sluice-process.ts";
import { faultyFetch } from "./faulty-fetch.ts";
import { noUnhandledRejections, numbersTo, openClient } from "./open-client.ts";

/** Contexts as in different processes: each has its own client, on one server. */
async function openContexts(engine: EngineName, count: number) {
  const { url } = await serverForTest(engine, { channel: { rate: 10_000 } });
  const pending: Promise<unknown>[] = [];
  const waitUntil = (promise: Promise<unknown>) => void pending.push(promise);
  const contexts = numbersTo(count).map(() => createResumableStreamContext({ sluice: openClient(url), waitUntil }));
  return { contexts, settled: () => Promise.all(pending) };
}

/** A stream that emits the given text when the test says so. */
function madeStream() {
  let controller!: ReadableStreamDefaultController<string>;
  let made = 0;
  const stream = new ReadableStream<string>({
    start: (its) => {
      controller = its;
    },
  });
  return {
    make: () => {
      made++;
      return stream;
    },
    say: (text: string) => controller.enqueue(text),
    end: () => controller.close(),
    fail: (error: Error) => controller.error(error),
    get made() {
      return made;
    },
  };
}

async function textOf(stream: ReadableStream<string> | null | undefined): Promise<string> {
  let text = "";
  for await (const chunk of stream!) text += chunk;
  return text;
}

test("the context has the interface of the package resumable-stream", () => {
  expectTypeOf<ResumableStreamContext>().toExtend<vercel.ResumableStreamContext>();
  type Theirs = Pick<vercel.CreateResumableStreamContextOptions, "keyPrefix" | "waitUntil">;
  type Ours = Omit<Parameters<typeof createResumableStreamContext>[0], "sluice">;
  expectTypeOf<Theirs>().toExtend<Ours>();
});

describeOnMemory("a resumable stream", (engine) => {
  test("is stopped from another process after a resume, and its readers get what was made", async () => {
    noUnhandledRejections();
    const { contexts, settled } = await openContexts(engine, 2);
    const [here, there] = contexts;
    expect(await there!.stopStream("chat-1")).toBe(false);
    const source = madeStream();
    let asked: AbortSignal | undefined;
    const first = textOf(
      await here!.createNewResumableStream("chat-1", (signal) => {
        asked = signal;
        signal.addEventListener("abort", () => source.fail(signal.reason));
        return source.make();
      }),
    );
    source.say("Half");
    const resumed = textOf(await there!.resumeExistingStream("chat-1"));
    expect(await there!.stopStream("chat-1", "enough")).toBe(true);
    expect([await first, await resumed]).toEqual(["Half", "Half"]);
    expect(asked!.reason).toMatchObject({ code: "stopped", message: "enough" });
    await settled();
    expect(await there!.hasExistingStream("chat-1")).toBe("DONE");
    expect(await there!.stopStream("chat-1")).toBe(false);
  });

  test("whose source ignores the stop is cancelled", async () => {
    const { contexts } = await openContexts(engine, 1);
    const source = madeStream();
    const text = textOf(await contexts[0]!.createNewResumableStream("deaf", source.make));
    source.say("Half");
    expect(await contexts[0]!.stopStream("deaf")).toBe(true);
    expect(await text).toBe("Half");
  });

  test("is made by the first caller, read in full by every follower, and null once it is complete", async () => {
    const { contexts, settled } = await openContexts(engine, 2);
    const [here, there] = contexts;
    const source = madeStream();
    const first = await here!.resumableStream("chat-1", source.make);
    source.say("Hello ");
    const reading = textOf(first);
    await eventually(async () => expect(await there!.hasExistingStream("chat-1")).toBe(true));
    const other = madeStream();
    const second = textOf(await there!.resumableStream("chat-1", other.make));
    const third = textOf(await there!.resumeExistingStream("chat-1", 4));
    source.say("world");
    source.end();
    expect(await reading).toBe("Hello world");
    expect(await second).toBe("Hello world");
    expect(await third).toBe("o world");
    expect([source.made, other.made]).toEqual([1, 0]);
    await settled();
    expect(await there!.hasExistingStream("chat-1")).toBe("DONE");
    expect(await there!.resumeExistingStream("chat-1")).toBeNull();
    expect(await there!.resumableStream("chat-1", other.make)).toBeNull();
    expect(await here!.createNewResumableStream("chat-1", other.make)).toBeNull();
  });

  test("that no caller has made is undefined to resume, and does not exist", async () => {
    const { contexts } = await openContexts(engine, 1);
    expect(await contexts[0]!.resumeExistingStream("missing")).toBeUndefined();
    expect(await contexts[0]!.hasExistingStream("missing")).toBeNull();
  });

  test("that many callers ask for at once is made by one, and all get the same text", async () => {
    const { contexts, settled } = await openContexts(engine, 6);
    let made = 0;
    const make = () => {
      made++;
      return new ReadableStream<string>({
        async start(controller) {
          for (const n of numbersTo(20)) {
            controller.enqueue(`${n} `);
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
          controller.close();
        },
      });
    };
    const streams = await Promise.all(contexts.map(({ resumableStream }) => resumableStream("crowd", make)));
    const texts = await Promise.all(streams.map(textOf));
    expect(made).toBe(1);
    expect(new Set(texts)).toEqual(
      new Set([
        numbersTo(20)
          .map((n) => `${n} `)
          .join(""),
      ]),
    );
    await settled();
  });

  test("stays with its caller when the answer to the claim was lost", async () => {
    const { url } = await serverForTest(engine);
    const { fetch } = faultyFetch(({ method }, i) => (method === "PUT" && i < 1 ? { kind: "lose-answer" } : undefined));
    const context = createResumableStreamContext({ sluice: openClient(url, { fetch }), waitUntil: null });
    const source = madeStream();
    const stream = await context.createNewResumableStream("lost", source.make);
    source.say("mine");
    source.end();
    expect(await textOf(stream)).toBe("mine");
    await eventually(async () => expect(await context.hasExistingStream("lost")).toBe("DONE"));
  });

  test("is made to its end although its first reader has left", async () => {
    const { contexts, settled } = await openContexts(engine, 2);
    const source = madeStream();
    const first = await contexts[0]!.createNewResumableStream("left", source.make);
    source.say("a");
    await first!.cancel();
    const following = textOf(await contexts[1]!.resumeExistingStream("left"));
    source.say("b");
    source.end();
    expect(await following).toBe("ab");
    await settled();
  });

  test("that fails passes the error to each of its readers, and to no reader of another stream", async () => {
    noUnhandledRejections();
    const { contexts, settled } = await openContexts(engine, 2);
    const source = madeStream();
    const first = textOf(await contexts[0]!.createNewResumableStream("fails", source.make));
    const failing = expect(first).rejects.toThrow("out of tokens");
    source.say("a");
    const second = textOf(await contexts[1]!.resumeExistingStream("fails"));
    source.fail(new Error("out of tokens"));
    await failing;
    await expect(second).rejects.toThrow("out of tokens");
    await settled();
    expect(await contexts[1]!.hasExistingStream("fails")).toBe("DONE");
  });

  test("that is in progress refuses a caller that wants to make it", async () => {
    const { contexts } = await openContexts(engine, 2);
    const source = madeStream();
    await contexts[0]!.createNewResumableStream("taken", source.make);
    await expect(contexts[1]!.createNewResumableStream("taken", source.make)).rejects.toMatchObject({
      code: "stream-exists",
    });
    source.end();
  });

  test("disconnects a reader that does not read, and every other reader gets the whole text", async () => {
    const { contexts, settled } = await openContexts(engine, 2);
    const source = madeStream();
    const idle = await contexts[0]!.createNewResumableStream("idle", source.make);
    const piece = "x".repeat(10_000);
    for (const _ of numbersTo(120)) source.say(piece);
    source.end();
    const following = textOf(await contexts[1]!.resumeExistingStream("idle"));
    await settled();
    expect(await following).toHaveLength(1_200_000);
    await expect(textOf(idle)).rejects.toMatchObject({ code: "queue-full" });
  });

  test("reaches the caller that asked although its channel cannot be written", async () => {
    noUnhandledRejections();
    const { url } = await serverForTest(engine);
    const { fetch } = faultyFetch(({ url: to }) => (to.endsWith("/publish") ? { kind: "refuse" } : undefined));
    const sluice = openClient(url, { fetch, retries: { minMs: 1, maxMs: 5, giveUpMs: 50 } });
    const context = createResumableStreamContext({ sluice, waitUntil: null });
    const source = madeStream();
    const reading = textOf(await context.resumableStream("unwritten", source.make));
    source.say("all ");
    await new Promise((resolve) => setTimeout(resolve, 100));
    source.say("the same");
    source.end();
    expect(await reading).toBe("all the same");
  });
});

test("a server that is killed in the middle and restarts loses no word for any reader", async () => {
  const dir = dirForTest();
  const serving = await serveInProcess(["--data", dir]);
  const open = () => createResumableStreamContext({ sluice: openClient(serving.url), waitUntil: null });
  const source = madeStream();
  const first = textOf(await open().createNewResumableStream("killed", source.make));
  source.say("before, ");
  const follower = await open().resumeExistingStream("killed");
  const following = textOf(follower);
  await eventually(async () => expect(await open().hasExistingStream("killed")).toBe(true));
  serving.child.kill("SIGKILL");
  await serving.ended;
  source.say("meanwhile, ");
  await serveInProcess(["--data", dir, "--port", new URL(serving.url).port]);
  source.say("after");
  source.end();
  expect(await first).toBe("before, meanwhile, after");
  expect(await following).toBe("before, meanwhile, after");
  await eventually(async () => expect(await open().hasExistingStream("killed")).toBe("DONE"));
});
