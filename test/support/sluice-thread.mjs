// Runs the commands of `sluice` one after the other in a thread that has loaded them once; `sluice-process.ts` starts it.
// A thread has its own standard streams, environment and exit code, so the commands run unchanged.
import { Readable, Writable } from "node:stream";
import { parentPort } from "node:worker_threads";
import { main } from "../../packages/server/dist/cli/main.js";

const replace = (name, value) => Object.defineProperty(process, name, { value, configurable: true });

function collector() {
  const chunks = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(Buffer.from(chunk));
      done();
    },
  });
  return { stream, text: () => Buffer.concat(chunks).toString("utf8") };
}

parentPort.on("message", async ({ args, stdin, env }) => {
  const stdout = collector();
  const stderr = collector();
  replace("stdin", Readable.from(stdin.length === 0 ? [] : [Buffer.from(stdin)], { objectMode: false }));
  replace("stdout", stdout.stream);
  replace("stderr", stderr.stream);
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.exitCode = undefined;
  await main(args);
  // The listeners of a command end with its process, which here goes on.
  for (const signal of ["SIGINT", "SIGTERM"]) process.removeAllListeners(signal);
  const code = process.exitCode ?? 0;
  process.exitCode = undefined;
  parentPort.postMessage({ code, signal: null, stdout: stdout.text(), stderr: stderr.text() });
});
