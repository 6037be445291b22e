/** The command line of `npx sluice`: the one that `@sluice/server` holds. `bin/sluice.js` calls it. */
export { main } from "@sluice/server/cli";
