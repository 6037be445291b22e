/**
 * Makes the `stop` of the AI SDK's chat stop the answer itself. By itself it only closes this page's connection, which looks the
 * same to a server as a reload. For pages; re-exported by `resumable-stream`.
 *
 * Invariants: `stop` is called once per stopped answer. A newer request of the same chat, which also aborts the one before it, is
 * not a stop.
 */
import { onAbort } from "./abort.ts";

interface Request {
  readonly chatId: string;
  readonly abortSignal?: AbortSignal | undefined;
}

/** What this needs of a transport; every transport of the AI SDK has it. */
export interface ChatTransport {
  // biome-ignore lint/suspicious/noExplicitAny: the options and answers are those of the wrapped transport.
  sendMessages(options: any): Promise<any>;
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  reconnectToStream(options: any): Promise<any>;
}

/** The transport, which also calls `stop` with the chat's id, for a request to the application's own route. */
export function stoppable<T extends ChatTransport>(transport: T, stop: (chatId: string) => unknown): T {
  const newest = new Map<string, AbortSignal>();
  const watched = <O extends Request, R>(send: (options: O) => R) => ({
    value: (options: O): R => {
      const { chatId, abortSignal } = options;
      if (abortSignal !== undefined) {
        newest.set(chatId, abortSignal);
        onAbort(abortSignal, () => {
          // A newer request follows in the same turn.
          setTimeout(() => {
            if (newest.get(chatId) !== abortSignal) return;
            newest.delete(chatId);
            void stop(chatId);
          });
        });
      }
      return send(options);
    },
  });
  return Object.create(transport, {
    sendMessages: watched((options) => transport.sendMessages(options)),
    reconnectToStream: watched((options) => transport.reconnectToStream(options)),
  }) as T;
}
