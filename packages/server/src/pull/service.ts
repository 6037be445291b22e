/** The service of pull. Its interface, `PullService`, is in `contract.ts`; doors import both from here. */
export type * from "./contract.ts";
