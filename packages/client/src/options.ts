/**
 * Checks the options of a caller: the address of the server, and numbers. Called by constructors, before any request.
 *
 * Invariants: `undefined` means the default. A wrong value is refused at once with a TypeError that names the option, what it
 * allows, and the value. A password in an address is never shown.
 */
import type { SocketClass } from "./text-socket.ts";
import type { TokenSource } from "./token.ts";

/** A number of at least `min`; `Infinity` is one. */
export function numberOption(name: string, value: number | undefined, fallback: number, min = 0): number {
  if (value === undefined) return fallback;
  if (typeof value === "number" && value >= min) return value;
  throw wrong(name, `a number of at least ${min}`, value);
}

/** A whole number of at least `min` that JSON and headers carry exactly. */
export function countOption(name: string, value: number | undefined, fallback: number, min = 0): number {
  if (value === undefined) return fallback;
  if (Number.isSafeInteger(value) && value >= min) return value;
  throw wrong(name, `a whole number of at least ${min}`, value);
}

/** A WebSocket class: the given one, or the platform's, which may have none. */
export function socketOption(
  value = (globalThis as { readonly WebSocket?: unknown }).WebSocket as SocketClass | undefined,
): SocketClass | undefined {
  if (value === undefined || typeof value === "function") return value;
  throw wrong("WebSocket", "a class", value);
}

export function projectOption(value = "default"): string {
  if (/^[a-zA-Z0-9_-]{1,128}$/.test(value)) return value;
  throw wrong("project", "a name of letters, digits, _ and -", value);
}

export function tokenOption(value: TokenSource | undefined): TokenSource | undefined {
  if (value === undefined || typeof value === "function" || (typeof value === "string" && value !== "")) return value;
  throw new TypeError("token must be a text that is not empty, or a function that gets one");
}

/** The address without its trailing slashes. */
export function urlOption(value: unknown): string {
  const url = parsed(value);
  if (url?.username || url?.password) {
    throw new TypeError("url must hold neither a user nor a password; pass a token instead");
  }
  if (url && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "") {
    return url.href.replace(/\/+$/, "");
  }
  throw wrong("url", 'the http(s) address of the server, like "https://streams.example.com"', value);
}

export function wrong(name: string, allowed: string, value: unknown): TypeError {
  return new TypeError(`${name} must be ${allowed}; got ${typeof value === "string" ? JSON.stringify(value) : value}`);
}

function parsed(value: unknown): URL | undefined {
  try {
    return new URL(String(value));
  } catch {
    return undefined;
  }
}
