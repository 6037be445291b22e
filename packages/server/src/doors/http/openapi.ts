/** The OpenAPI document. */
export function openapiText(): string {
  return JSON.stringify({ openapi: "3.1.0", info: { title: "Sluice", version: "0.1.0" }, paths: {} });
}
