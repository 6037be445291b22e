/**
 * The picture of the README: a terminal session as an SVG whose lines appear one after another. `picture.test.ts` records the
 * session from a real server and draws it.
 *
 * Invariants: every line of output is what a command has written.
 */
export interface Step {
  /** What the viewer is told before the command. */
  readonly remark?: string | undefined;
  readonly command: string;
  readonly output: readonly string[];
}

const WIDTH = 900;
const LINE = 21;
const GAP = 10;
const TOP = 52;
const SIDE = 24;
const COLORS = { remark: "#7d8590", command: "#e6edf3", output: "#7ee787" };

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

interface Line {
  readonly kind: keyof typeof COLORS;
  readonly text: string;
  readonly atSeconds: number;
  readonly y: number;
}

function linesOf(steps: readonly Step[]): Line[] {
  const lines: Line[] = [];
  let at = 0.4;
  let y = TOP;
  const add = (kind: Line["kind"], text: string, atSeconds: number) => {
    lines.push({ kind, text, atSeconds, y });
    y += LINE;
  };
  for (const { remark, command, output } of steps) {
    if (remark !== undefined) add("remark", `# ${remark}`, at);
    add("command", `$ ${command}`, at + 0.3);
    at += 1.2;
    for (const text of output) add("output", text, at);
    at += 0.8;
    y += GAP;
  }
  return lines;
}

export function draw(steps: readonly Step[]): string {
  const lines = linesOf(steps);
  const height = lines.at(-1)!.y + LINE;
  const texts = lines.map(
    ({ kind, text, atSeconds, y }) =>
      `<text x="${SIDE}" y="${y}" fill="${COLORS[kind]}" style="animation-delay:${atSeconds.toFixed(1)}s">${escaped(text)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>A terminal session with Sluice</title>
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;animation:show .3s backwards}@keyframes show{from{opacity:0}}@media (prefers-reduced-motion:reduce){text{animation-delay:0s!important}}</style>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/>
<circle cx="24" cy="20" r="6" fill="#ff5f57"/><circle cx="44" cy="20" r="6" fill="#febc2e"/><circle cx="64" cy="20" r="6" fill="#28c840"/>
${texts.join("\n")}
</svg>
`;
}
