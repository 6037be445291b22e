/**
 * The lock of a data directory: one process owns it. `node-files` takes it before an engine opens anything else.
 *
 * Node has no flock. A pid file survives a crash, is useless in another container (other pids) and misleads when pids are reused.
 * So the lock is a listening unix socket *in* the directory. The kernel releases it when the process dies, however it dies, and
 * every process that can write the directory can ask it. The owner answers with its pid. Some shared mounts of virtual machines
 * cannot hold sockets. There an abstract socket named after the directory replaces it, which does not reach into another
 * container. On Windows it is a named pipe.
 *
 * Invariants: a living owner is never displaced. A dead socket is moved aside before it is replaced and asked once more under its
 * new name. So of two processes that start at once, neither can remove the other's fresh lock unnoticed.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import { join, resolve as resolvePath } from "node:path";
import { EngineError } from "../contract.ts";
import { DEFAULT_LIMITS } from "./defaults.ts";
import type { Release } from "./files.ts";
import { faultCode, isFull } from "./system-fault.ts";

const NAME = "lock.sock";
/** Each attempt but the last has moved a dead lock aside, which takes another process that died in between. */
const ATTEMPTS = 5;
/** The kernel truncates longer socket paths; beyond this length the path goes through the directory's descriptor. */
const MAX_SOCKET_PATH = 100;
/** The codes of a file system that does not support sockets. */
const NO_SOCKETS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"]);

/** A living process owns the directory. */
export class DirectoryInUse extends EngineError {
  constructor(dir: string, owner: string) {
    super("storage-failed", `The data directory ${dir} is in use by ${owner}; only one may own it.`);
  }
}

/** A server that listens on an address, or undefined if the address is taken; throws the system's fault. */
export type Listen = (address: string) => Promise<net.Server | undefined>;

export async function lockDirectory(
  dir: string,
  listenAt: Listen = listen,
  answerMs = DEFAULT_LIMITS.lockMs,
): Promise<Release> {
  const place = socketPlace(dir, answerMs);
  try {
    const server = await takeLock(dir, place, listenAt);
    return () => unlock(server, place);
  } catch (fault) {
    place.close();
    if (fault instanceof EngineError || isFull(fault)) throw fault;
    throw new EngineError("storage-failed", `The data directory ${dir} cannot be written (${faultCode(fault)}).`);
  }
}

async function takeLock(dir: string, place: SocketPlace, listenAt: Listen): Promise<net.Server> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let server: net.Server | undefined;
    try {
      server = await listenAt(place.address(NAME));
    } catch (fault) {
      if (process.platform === "linux" && NO_SOCKETS.has(faultCode(fault)))
        return takeAbstract(dir, listenAt, place.answerMs);
      throw fault;
    }
    if (server !== undefined) return server;
    await refuseIfAlive(dir, place.address(NAME), place.answerMs);
    await moveAside(dir, place);
  }
  throw new EngineError("storage-failed", `The lock of the data directory ${dir} could not be taken.`);
}

/** The kernel drops an abstract name with its owner, so a taken name has a living owner. */
async function takeAbstract(dir: string, listenAt: Listen, answerMs: number): Promise<net.Server> {
  const address = `\0sluice-${digest(fs.realpathSync(dir))}`;
  const server = await listenAt(address);
  if (server !== undefined) return server;
  await refuseIfAlive(dir, address, answerMs);
  throw new EngineError("storage-failed", `The lock of the data directory ${dir} could not be taken.`);
}

/** Removes a dead lock. If its owner turns out to be alive, the lock is put back and obeyed. */
async function moveAside(dir: string, place: SocketPlace): Promise<void> {
  const aside = `${NAME}.${randomBytes(6).toString("hex")}`;
  try {
    await fs.promises.rename(join(dir, NAME), join(dir, aside));
  } catch (fault) {
    if (faultCode(fault) === "ENOENT") return;
    throw fault;
  }
  try {
    await refuseIfAlive(dir, place.address(aside), place.answerMs);
  } catch (fault) {
    await fs.promises.rename(join(dir, aside), join(dir, NAME));
    throw fault;
  }
  await fs.promises.rm(join(dir, aside), { force: true });
}

export function listen(address: string): Promise<net.Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = net.createServer((socket) => {
      socket.on("error", () => socket.destroy());
      // The asking process gets the answer and the connection is destroyed, so that no client can keep the lock from closing.
      socket.end(String(process.pid), () => socket.destroy());
    });
    server.once("error", (fault) => {
      if (faultCode(fault) === "EADDRINUSE") resolve(undefined);
      else reject(fault);
    });
    server.listen(address, () => {
      server.unref();
      resolve(server);
    });
  });
}

function refuseIfAlive(dir: string, address: string, answerMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = net.connect(address);
    const refuse = () => {
      socket.destroy();
      const who = /^\d+$/.test(answer) ? `process ${answer}` : "another process of unknown id";
      reject(new DirectoryInUse(dir, who));
    };
    socket.setTimeout(answerMs, refuse);
    socket.on("data", (bytes) => {
      answer += bytes.toString("latin1");
    });
    socket.on("end", refuse);
    socket.on("error", (fault) => {
      // No process listens (ECONNREFUSED), the name is gone (ENOENT), or it is no socket at all (ENOTSOCK).
      if (["ECONNREFUSED", "ENOENT", "ENOTSOCK"].includes(faultCode(fault))) resolve();
      else refuse();
    });
  });
}

/** Closing a listening unix socket removes its name as well. */
function unlock(server: net.Server, place: SocketPlace): Promise<void> {
  return new Promise((resolve) =>
    server.close(() => {
      place.close();
      resolve();
    }),
  );
}

interface SocketPlace {
  /** How long a found owner may take to answer. */
  readonly answerMs: number;
  address(name: string): string;
  close(): void;
}

function socketPlace(dir: string, answerMs: number): SocketPlace {
  const absolute = resolvePath(dir);
  if (process.platform === "win32") {
    return {
      answerMs,
      address: (name) => `\\\\.\\pipe\\sluice-${digest(absolute.toLowerCase())}-${name}`,
      close: () => undefined,
    };
  }
  if (join(absolute, `${NAME}.000000000000`).length <= MAX_SOCKET_PATH || process.platform !== "linux") {
    return { answerMs, address: (name) => join(absolute, name), close: () => undefined };
  }
  const fd = fs.openSync(absolute, "r");
  return { answerMs, address: (name) => `/proc/self/fd/${fd}/${name}`, close: () => fs.closeSync(fd) };
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 32);
