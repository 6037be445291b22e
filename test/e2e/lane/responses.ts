/** What two servers may tell differently, made the same: the order of headers, times, and numbers that are made from times. */

const HEAD = /HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/g;

export function normalized(text: string): string {
  return text
    .replace(HEAD, (_, status: string, lines: string) => `\n${status}\n${ordered(lines)}\n`)
    .replace(/\b\d{16}_/g, "G_")
    .replace(/\b1\d{12}\b/g, "TIME")
    .replace(/"[\w-]{11}-[\w-]+"/g, "ID");
}

function ordered(lines: string): string {
  return lines
    .split("\r\n")
    .filter((line) => line !== "")
    .map((line) => (/^(Date|X-Request-Id):/.test(line) ? line.slice(0, line.indexOf(":")) : line))
    .map((line) => line.replace(/:\d{4,5}\//, ":PORT/"))
    .sort()
    .join("\n");
}
