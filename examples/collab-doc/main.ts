/** `npm run example collab-doc`: starts everything, prints the address of the page, and stops on Ctrl-C. */
import { runExample } from "../web/run.ts";
import { startExample } from "./server.ts";

await runExample("collab-doc", { port: 4450 }, startExample);
