/** What crosses the wire. Imports nothing, so that a browser and a server can share it. */
export * from "./error.ts";
export * from "./header.ts";
export * from "./listing.ts";
export * from "./offset.ts";
