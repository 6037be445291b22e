/** `npm run example ai-tokens`: starts everything, prints where the page is, and stops on Ctrl-C. */
import { parseArgs } from "node:util";
import { startExample } from "./server.ts";

const { values } = parseArgs({ options: { port: { type: "string", default: "0" } } });
const port = Number(values.port);
if (!/^\d+$/.test(values.port) || port > 65_535) {
  console.error(`--port: ${values.port} is not a port`);
  process.exit(2);
}

const example = await startExample({ port }).catch((error: Error) => {
  console.error(`ai-tokens: ${error.message}`);
  process.exit(1);
});
console.log(`ai-tokens: open ${example.url}`);

let isStopping = false;
async function stop(): Promise<void> {
  // Ctrl-C reaches us twice: from the terminal, and from the script that started us.
  if (isStopping) return;
  isStopping = true;
  setTimeout(() => process.exit(1), 5_000).unref();
  await example.close();
  process.exit(0);
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, stop);
