/** Which encoding of a response its client asks for (RFC 9110, Accept-Encoding). The compressor calls it. */

export type Encoding = "zstd" | "gzip";

/** The offered encoding that the client likes best, in the order of the offer; undefined if it wants none of them. */
export function acceptedEncoding(accept: string, offer: readonly Encoding[]): Encoding | undefined {
  const weights = new Map<string, number>();
  for (const part of accept.split(",")) {
    const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
    const weight = parameters.find((text) => text.startsWith("q="))?.slice("q=".length);
    weights.set(name === "x-gzip" ? "gzip" : name, weight === undefined ? 1 : Number(weight) || 0);
  }
  let best: Encoding | undefined;
  let bestWeight = 0;
  for (const encoding of offer) {
    const weight = weights.get(encoding) ?? weights.get("*") ?? 0;
    if (weight > bestWeight) [best, bestWeight] = [encoding, weight];
  }
  return best;
}
