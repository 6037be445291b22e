/** Real files whose operations can fail on demand, for faults that a test cannot provoke on a real disk. */
import { type File, type Files, flushing, type Opening } from "../../packages/server/src/engine/disk/files.ts";
import { nodeFiles } from "../../packages/server/src/engine/disk/node-files.ts";

export type Operation = "open" | "write" | "sync" | "syncDir";

export class FailingFiles implements Files {
  /** Called before each of these operations; a returned error is thrown. */
  fault: (operation: Operation, bytes: number) => Error | undefined = () => undefined;
  makeDir = nodeFiles.makeDir;
  names = nodeFiles.names;
  rename = nodeFiles.rename;
  remove = nodeFiles.remove;
  lock = nodeFiles.lock;

  async syncDir(dir: string): Promise<void> {
    this.check("syncDir");
    await nodeFiles.syncDir(dir);
  }

  async open(path: string, how: Opening): Promise<File> {
    this.check("open");
    const file = await nodeFiles.open(path, how === "durable" ? "write" : how);
    const failing: File = {
      size: () => file.size(),
      read: (into, at) => file.read(into, at),
      close: () => file.close(),
      write: async (bytes, at) => {
        const fault = this.fault("write", bytes.length);
        // Half of the bytes are written, as may happen on a real disk.
        if (fault !== undefined) await file.write(bytes.subarray(0, bytes.length >> 1), at);
        if (fault !== undefined) throw fault;
        await file.write(bytes, at);
      },
      sync: async () => {
        this.check("sync");
        await file.sync();
      },
    };
    return how === "durable" ? flushing(failing) : failing;
  }

  private check(operation: Operation): void {
    const fault = this.fault(operation, 0);
    if (fault !== undefined) throw fault;
  }
}

export const systemFault = (code: string): Error =>
  Object.assign(new Error(`${code}: a fault made by the test`), { code });
