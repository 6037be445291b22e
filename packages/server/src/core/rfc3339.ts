/** Times as RFC 3339 writes them, for headers and flags. */

const TIME = /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/i;

/** Epoch ms; undefined for any other text, and for a day that no calendar has, which `Date.parse` takes for a later one. */
export function parseTime(text: string): number | undefined {
  const [, year, month, day] = TIME.exec(text) ?? [];
  if (year === undefined) return undefined;
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  if (Number.isNaN(date.getTime()) || date.getUTCDate() !== Number(day)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}
