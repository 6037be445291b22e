/**
 * The lock of a data directory: one process owns it. `node-files` takes it first of all when an engine opens.
 *
 * Node has no flock. A file with a pid lies after a crash, in another container (other pids) and when pids are reused; an
 * abstract socket does not reach into another network namespace. So the lock is a listening unix socket *in* the directory:
 * the kernel lets go of it when the process dies, however it dies, and whoever can write the directory can ask it. The
 * owner answers with its pid. On Windows a named pipe plays the same part.
 *
 * What must stay true: a living owner is never displaced. A dead socket is moved aside before it is replaced and asked
 * once more under its new name, so that of two processes starting at once none can remove the other's fresh lock unseen.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import { join, resolve as resolvePath } from "node:path";
import { EngineError } from "../contract.ts";
import { faultCode } from "./files.ts";

const NAME = "lock.sock";
const ATTEMPTS = 5;
const ANSWER_MS = 2_000;
/** The kernel cuts longer socket paths; beyond it the directory is named through its descriptor. */
const MAX_SOCKET_PATH = 100;

export async function lockDirectory(dir: string): Promise<() => Promise<void>> {
  const door = socketDoor(dir);
  try {
    return await takeLock(dir, door);
  } catch (fault) {
    door.close();
    throw fault;
  }
}

async function takeLock(dir: string, door: SocketDoor): Promise<() => Promise<void>> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const server = await listen(dir, door.path(NAME));
    if (server !== undefined) return () => unlock(server, door);
    await refuseIfAlive(dir, door.path(NAME));
    await moveAside(dir, door);
  }
  throw new EngineError("storage-failed", `The lock of the data directory ${dir} could not be taken.`);
}

/** A dead lock goes away; one that turns out to be alive is put back and obeyed. */
async function moveAside(dir: string, door: SocketDoor): Promise<void> {
  const aside = `${NAME}.${randomBytes(6).toString("hex")}`;
  try {
    await fs.promises.rename(join(dir, NAME), join(dir, aside));
  } catch (fault) {
    if (faultCode(fault) === "ENOENT") return;
    throw notWritable(dir, fault);
  }
  try {
    await refuseIfAlive(dir, door.path(aside));
  } catch (fault) {
    await fs.promises.rename(join(dir, aside), join(dir, NAME));
    throw fault;
  }
  await fs.promises.rm(join(dir, aside), { force: true });
}

/** A server on the socket, or undefined when the name is taken. */
function listen(dir: string, path: string): Promise<net.Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = net.createServer((socket) => {
      socket.on("error", () => socket.destroy());
      socket.end(String(process.pid));
    });
    server.once("error", (fault) => {
      if (faultCode(fault) === "EADDRINUSE") resolve(undefined);
      else reject(notWritable(dir, fault));
    });
    server.listen(path, () => {
      server.unref();
      resolve(server);
    });
  });
}

function refuseIfAlive(dir: string, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = net.connect(path);
    const refuse = () => {
      socket.destroy();
      const who = /^\d+$/.test(answer) ? `process ${answer}` : "another process (it did not tell its id)";
      reject(new EngineError("storage-failed", `The data directory ${dir} is in use by ${who}; only one may own it.`));
    };
    socket.setTimeout(ANSWER_MS, refuse);
    socket.on("data", (bytes) => {
      answer += bytes.toString("latin1");
    });
    socket.on("end", refuse);
    socket.on("error", (fault) => {
      // Nobody listens (ECONNREFUSED), the name is gone (ENOENT), or it is no socket at all (ENOTSOCK).
      if (["ECONNREFUSED", "ENOENT", "ENOTSOCK"].includes(faultCode(fault))) resolve();
      else refuse();
    });
  });
}

function unlock(server: net.Server, door: SocketDoor): Promise<void> {
  // Closing a listening unix socket removes its name as well.
  return new Promise((resolve) =>
    server.close(() => {
      door.close();
      resolve();
    }),
  );
}

function notWritable(dir: string, fault: unknown): EngineError {
  return new EngineError("storage-failed", `The data directory ${dir} cannot be written (${faultCode(fault)}).`);
}

interface SocketDoor {
  path(name: string): string;
  close(): void;
}

function socketDoor(dir: string): SocketDoor {
  const absolute = resolvePath(dir);
  if (process.platform === "win32") {
    const digest = createHash("sha256").update(absolute.toLowerCase()).digest("hex").slice(0, 32);
    return { path: (name) => `\\\\.\\pipe\\sluice-${digest}-${name}`, close: () => {} };
  }
  if (join(absolute, `${NAME}.000000000000`).length <= MAX_SOCKET_PATH || process.platform !== "linux") {
    return { path: (name) => join(absolute, name), close: () => {} };
  }
  const fd = fs.openSync(absolute, "r");
  return { path: (name) => `/proc/self/fd/${fd}/${name}`, close: () => fs.closeSync(fd) };
}
