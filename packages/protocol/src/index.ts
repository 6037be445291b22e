/**
 * The wire format: offsets, headers, errors, listings. Server and client import it.
 *
 * Invariants: it imports nothing, so a browser and a server can share it.
 */
export * from "./error.ts";
export * from "./header.ts";
export * from "./listing.ts";
export * from "./offset.ts";
