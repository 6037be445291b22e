/** `npm run example notifications`: starts everything, prints the address of the page, and stops on Ctrl-C. */
import { runExample } from "../web/run.ts";
import { startExample } from "./server.ts";

await runExample("notifications", { port: 4440 }, startExample);
