/**
 * A transcript of a WebSocket in the manual, said again to a real server: `>` lines are sent, `<` lines must come. `…` stands for any
 * value; in a line that is sent, for the last value that came under the same name.
 */
import { expect } from "vitest";
import { WebSocket } from "ws";

type Value = null | boolean | number | string | readonly Value[] | { readonly [name: string]: Value };

const ANY = "…";
/** Values that a server chooses. */
const CHOSEN = ["epoch", "lease"];

export async function replay(text: string, server: string): Promise<void> {
  const [command, ...lines] = text.trim().split("\n");
  const address = /ws:\/\/127\.0\.0\.1:4437([^"\s]+)/.exec(command!)?.[1];
  if (address === undefined) throw new Error(`no address of a WebSocket: ${command}`);
  const socket = new WebSocket(server.replace("http", "ws") + address);
  const came: Value[] = [];
  let heard = () => {};
  socket.on("message", (data) => {
    came.push(JSON.parse(String(data)) as Value);
    heard();
  });
  const changed = () => new Promise<void>((resolve) => (heard = resolve));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  try {
    for (const line of lines) {
      const frame = JSON.parse(line.slice(2).replaceAll(`:${ANY}`, `:"${ANY}"`)) as Value;
      if (line.startsWith("> ")) socket.send(JSON.stringify(filled(frame, about(frame, came))));
      else {
        while (!came.some((other) => isKin(frame, other))) await changed();
        expect(blurred(came.find((other) => isKin(frame, other))!, frame)).toEqual(frame);
      }
    }
  } finally {
    socket.close();
  }
}

const isRecord = (value: Value): value is { readonly [name: string]: Value } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a frame is the one that the page shows: the same type, of the same stream, and the answer to the same request. */
function isKin(shown: Value, frame: Value): boolean {
  if (!isRecord(shown) || !isRecord(frame)) return false;
  return ["type", "ref", "stream"].every((name) => shown[name] === frame[name]);
}

/** The frame, with what the page leaves open replaced by the page's own values. */
function blurred(frame: Value, shown: Value | undefined, name = ""): Value {
  if (typeof shown === "string" && shown.includes(ANY)) return shown;
  if (CHOSEN.includes(name) && typeof shown === typeof frame) return shown!;
  if (Array.isArray(frame)) return frame.map((item, i) => blurred(item, (shown as readonly Value[] | undefined)?.[i]));
  if (!isRecord(frame)) return frame;
  const of = shown !== undefined && isRecord(shown) ? shown : {};
  return Object.fromEntries(Object.entries(frame).map(([key, value]) => [key, blurred(value, of[key], key)]));
}

/** The frames about the stream of this one; all of them if it names none. */
function about(frame: Value, came: readonly Value[]): readonly Value[] {
  if (!isRecord(frame) || frame.stream === undefined) return came;
  return came.filter((other) => isRecord(other) && other.stream === frame.stream);
}

function filled(frame: Value, came: readonly Value[], name = ""): Value {
  if (CHOSEN.includes(name) || (typeof frame === "string" && frame.includes(ANY))) return lastOf(name, came) ?? frame;
  if (Array.isArray(frame)) return frame.map((item) => filled(item, came, name.replace(/s$/, "")));
  if (!isRecord(frame)) return frame;
  return Object.fromEntries(Object.entries(frame).map(([key, value]) => [key, filled(value, came, key)]));
}

function lastOf(name: string, values: readonly Value[]): Value | undefined {
  for (const value of [...values].reverse()) {
    if (isRecord(value) && value[name] !== undefined) return value[name];
    const inner = isRecord(value) ? Object.values(value) : Array.isArray(value) ? value : [];
    const found = inner.length === 0 ? undefined : lastOf(name, inner);
    if (found !== undefined) return found;
  }
  return undefined;
}
