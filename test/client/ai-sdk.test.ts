/**
 * The real AI SDK on Sluice channels. A route as in the SDK's manual sends out an answer of its `streamText`; the page that
 * asked leaves in the middle, and the SDK's own transport resumes through the route for that. Only the model is replaced: it
 * writes what the test tells it to.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { createResumableStreamContext, stoppable } from "@sluice/client/resumable-stream";
import {
  AbstractChat,
  type ChatTransport,
  DefaultChatTransport,
  readUIMessageStream,
  streamText,
  UI_MESSAGE_STREAM_HEADERS,
  type UIMessage,
} from "ai";
import { MockLanguageModelV2 } from "ai/test";
import { expect, onTestFinished, test } from "vitest";
import { describeOnMemory, eventually, serverForTest } from "../e2e/server.ts";
import { openClient } from "./open-client.ts";

const WORDS = ["Once ", "upon ", "a ", "time ", "there ", "was ", "a ", "log."];

/** A model that writes its words one by one, each when the test lets it. */
function slowModel() {
  let allowed = 0;
  let wake = () => {};
  const until = async (count: number) => {
    while (allowed < count) await new Promise<void>((resolve) => (wake = resolve));
  };
  const model = new MockLanguageModelV2({
    doStream: async () => ({
      stream: new ReadableStream({
        async start(controller) {
          controller.enqueue({ type: "stream-start", warnings: [] });
          controller.enqueue({ type: "text-start", id: "t" });
          for (const [i, delta] of WORDS.entries()) {
            await until(i + 1);
            controller.enqueue({ type: "text-delta", id: "t", delta });
          }
          controller.enqueue({ type: "text-end", id: "t" });
          const usage = { inputTokens: 1, outputTokens: WORDS.length, totalTokens: WORDS.length + 1 };
          controller.enqueue({ type: "finish", finishReason: "stop", usage });
          controller.close();
        },
      }),
    }),
  });
  const allow = (count: number) => {
    allowed = count;
    wake();
  };
  return { model, allow };
}

/** A backend with the two routes of the manual: POST makes an answer, GET …/stream resumes it. And DELETE stops it. */
async function backend(url: string, model: MockLanguageModelV2, stopping = new AbortController()): Promise<string> {
  const streams = () => createResumableStreamContext({ sluice: openClient(url), waitUntil: null });
  const routes: Record<string, (chat: string) => Promise<Response>> = {
    POST: async (chat) =>
      streamText({ model, prompt: "Tell me a story.", abortSignal: stopping.signal }).toUIMessageStreamResponse({
        consumeSseStream: async ({ stream }) => {
          const make = (signal: AbortSignal) => {
            signal.addEventListener("abort", () => stopping.abort(signal.reason));
            return stream;
          };
          await streams().createNewResumableStream(chat, make);
        },
      }),
    DELETE: async (chat) => new Response(null, { status: (await streams().stopStream(chat)) ? 202 : 409 }),
    GET: async (chat) => {
      const stream = await streams().resumeExistingStream(chat);
      if (!stream) return new Response(null, { status: 204 });
      return new Response(stream.pipeThrough(new TextEncoderStream()), { headers: UI_MESSAGE_STREAM_HEADERS });
    },
  };
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const chat = /^\/api\/chat\/([^/]+)/.exec(request.url!)![1]!;
    void routes[request.method!]!(chat).then((answer) => {
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      if (answer.body)
        Readable.fromWeb(answer.body as never)
          .on("error", () => {})
          .pipe(response);
      else response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/chat`;
}

async function lastText(chunks: ReadableStream<never> | null): Promise<string> {
  let text = "";
  for await (const message of readUIMessageStream({ stream: chunks! })) text = textOf(message);
  return text;
}

function textOf({ parts }: UIMessage): string {
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** A page's chat: the SDK's own, over a state without a framework. */
class PageChat extends AbstractChat<UIMessage> {
  constructor(id: string, transport: ChatTransport<UIMessage>) {
    const state = {
      status: "ready" as const,
      error: undefined,
      messages: [] as UIMessage[],
      pushMessage(message: UIMessage) {
        this.messages.push(message);
      },
      popMessage() {
        this.messages.pop();
      },
      replaceMessage(index: number, message: UIMessage) {
        this.messages[index] = message;
      },
      snapshot: <T>(value: T): T => structuredClone(value),
    };
    super({ id, transport, state });
  }
}

describeOnMemory("a chat of the AI SDK", (engine) => {
  test("is stopped by the SDK's own stop after a resume: the model learns it, and a newer resume is no stop", async () => {
    const { url } = await serverForTest(engine, { channel: { rate: 10_000 } });
    const { model, allow } = slowModel();
    const stopping = new AbortController();
    const api = await backend(url, model, stopping);
    allow(3);
    // The page that asked leaves.
    const asked = await fetch(`${api}/story`, { method: "POST" });
    await asked.body!.cancel();
    const stops: number[] = [];
    const transport = stoppable(new DefaultChatTransport<UIMessage>({ api }), async (chatId) => {
      stops.push((await fetch(`${api}/${chatId}`, { method: "DELETE" })).status);
    });
    const chat = new PageChat("story", transport);
    const shown = () => chat.messages.map(textOf).join("");
    await eventually(async () => {
      void chat.resumeStream();
      await eventually(() => expect(shown()).toBe("Once upon a "), 500);
    });
    // A second resume aborts the first one.
    void chat.resumeStream();
    await eventually(() => expect(chat.status).toBe("streaming"));
    expect([stopping.signal.aborted, stops]).toEqual([false, []]);
    await chat.stop();
    await eventually(() => expect([stopping.signal.aborted, stops]).toEqual([true, [202]]));
    await eventually(async () => expect(await transport.reconnectToStream({ chatId: "story" })).toBeNull());
  });

  test("continues after the page that asked has left, and a page that returns sees the whole answer", async () => {
    const { url } = await serverForTest(engine, { channel: { rate: 10_000 } });
    const { model, allow } = slowModel();
    const api = await backend(url, model);
    const transport = new DefaultChatTransport({ api: `${api}/story` });
    const page = new AbortController();
    allow(3);
    const chunks = await transport.sendMessages({
      trigger: "submit-message",
      chatId: "story",
      messageId: undefined,
      messages: [],
      abortSignal: page.signal,
    });
    let seen = "";
    try {
      for await (const message of readUIMessageStream({ stream: chunks as never })) {
        seen = textOf(message);
        if (seen === "Once upon a ") page.abort();
      }
    } catch {
      // An aborted request looks the same as a page that leaves.
    }
    expect(seen).toBe("Once upon a ");

    const back = new DefaultChatTransport({ api });
    // The page may receive the answer before the SDK has handed its stream over to be kept.
    let found: Awaited<ReturnType<typeof back.reconnectToStream>> = null;
    await eventually(async () => {
      found = await back.reconnectToStream({ chatId: "story" });
      expect(found).not.toBeNull();
    });
    const resumed = lastText(found as never);
    allow(WORDS.length);
    expect(await resumed).toBe(WORDS.join(""));
    // Once the answer is complete, there is nothing to resume.
    await eventually(async () => expect(await back.reconnectToStream({ chatId: "story" })).toBeNull());
    expect(await back.reconnectToStream({ chatId: "another" })).toBeNull();
  });
});
