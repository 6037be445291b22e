// Loaded into the Sluice process of an example: ends it when the process that started it is gone, however that ended.
import { isMainThread } from "node:worker_threads";

// The threads of the server load this file as well.
if (isMainThread)
  process.stdin
    .resume()
    .on("end", () => process.kill(process.pid, "SIGTERM"))
    .unref();
