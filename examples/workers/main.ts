/** `npm run example workers`: starts everything, prints the address of the page, and stops on Ctrl-C. */
import { runExample } from "../web/run.ts";
import { startExample } from "./server.ts";

await runExample("workers", { port: 4470 }, startExample);
