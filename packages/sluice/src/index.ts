/** The package `sluice` is the server under its short name: `import { createServer } from "sluice"`. */
export * from "@sluice/server";
