/** The file `format` of a data directory: one line with its kind and version. `open.ts` and the doctor read it. */
import { EngineError } from "../contract.ts";
import { FORMAT_VERSION } from "./frame.ts";

export const FORMAT_TEXT = `Sluice data directory, format ${FORMAT_VERSION}\n`;

/** Throws unless the text is that of a directory that this version can read. */
export function judgeFormat(dir: string, text: string): void {
  if (text === FORMAT_TEXT) return;
  const version = /^Sluice data directory, format (\d+)\n$/.exec(text)?.[1];
  if (version === undefined)
    throw new EngineError("data-damaged", `${dir}/format is damaged: it does not name a format.`);
  throw new EngineError(
    "data-damaged",
    `The data directory ${dir} has format ${version}; this program reads and writes format ${FORMAT_VERSION}.`,
  );
}
