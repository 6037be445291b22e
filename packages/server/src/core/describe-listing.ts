/** The query parameters that every listing of entities takes, described for the OpenAPI document. */
import { parameter } from "./describe.ts";
import { LISTED, MOST_LISTED } from "./entity-listing.ts";

export const limitQuery = parameter("limit", "The most entries on the page.", {
  type: "integer",
  minimum: 1,
  maximum: MOST_LISTED,
  default: LISTED,
});
export const afterQuery = parameter("after", "The `next` of the page before; the page starts after it.", {
  type: "string",
});
