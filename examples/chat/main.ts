/** `npm run example chat`: starts everything, prints the address of the page, and stops on Ctrl-C. */
import { runExample } from "../web/run.ts";
import { startExample } from "./server.ts";

await runExample("chat", { port: 4460 }, startExample);
