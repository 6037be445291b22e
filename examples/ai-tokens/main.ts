/** `npm run example ai-tokens`: starts everything, prints the address of the page, and stops on Ctrl-C. */
import { runExample } from "../web/run.ts";
import { startExample } from "./server.ts";

// An answer is kept for an hour.
await runExample("ai-tokens", { port: 4430, args: ["--set", "channel.ttlMs=3600000"] }, startExample);
