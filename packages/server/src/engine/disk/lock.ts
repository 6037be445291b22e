/**
 * The lock of a data directory: one process owns it. `node-files` takes it first of all when an engine opens.
 *
 * Node has no flock. A file with a pid lies after a crash, in another container (other pids) and when pids are reused. So the
 * lock is a listening unix socket *in* the directory: the kernel lets go of it when the process dies, however it dies, and
 * whoever can write the directory can ask it. The owner answers with its pid. Some shared mounts of virtual machines cannot
 * hold sockets; there an abstract socket named after the directory stands in, which does not reach into another container.
 * On Windows a named pipe plays the part.
 *
 * What must stay true: a living owner is never displaced. A dead socket is moved aside before it is replaced and asked
 * once more under its new name, so that of two processes starting at once none can remove the other's fresh lock unseen.
 */
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import { join, resolve as resolvePath } from "node:path";
import { EngineError } from "../contract.ts";
import { faultCode, isFull, type Release } from "./files.ts";
import { DEFAULT_LIMITS } from "./limits.ts";

const NAME = "lock.sock";
/** Each but the last has moved a dead lock aside, which takes another process that died in between. */
const ATTEMPTS = 5;
/** The kernel cuts longer socket paths; beyond it the directory is named through its descriptor. */
const MAX_SOCKET_PATH = 100;
/** What a file system says that knows no sockets. */
const NO_SOCKETS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL"]);

/** A living process owns the directory. */
export class DirectoryInUse extends EngineError {
  constructor(dir: string, owner: string) {
    super("storage-failed", `The data directory ${dir} is in use by ${owner}; only one may own it.`);
  }
}

/** A server on an address, or undefined when the address is taken; throws the system's fault. */
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

/** The kernel forgets an abstract name with its owner, so a taken one is a living one. */
async function takeAbstract(dir: string, listenAt: Listen, answerMs: number): Promise<net.Server> {
  const address = `\0sluice-${digest(fs.realpathSync(dir))}`;
  const server = await listenAt(address);
  if (server !== undefined) return server;
  await refuseIfAlive(dir, address, answerMs);
  throw new EngineError("storage-failed", `The lock of the data directory ${dir} could not be taken.`);
}

/** A dead lock goes away; one that turns out to be alive is put back and obeyed. */
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
      // Whoever asks gets the answer and nothing more, so that nobody can keep the lock from closing.
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
      const who = /^\d+$/.test(answer) ? `process ${answer}` : "another process (it did not tell its id)";
      reject(new DirectoryInUse(dir, who));
    };
    socket.setTimeout(answerMs, refuse);
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
  /** How long an owner that is found there may take to answer. */
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
