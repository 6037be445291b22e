/**
 * Opens a directory whose store was damaged, reads everything that the engine promises to have, and says what came of it:
 *   same | refused <code> <message> | lost <what is not found> | wrong <what is not what was written>
 * It is a process of its own, because LMDB may die of a damaged page.
 */
import { type Engine, EngineError, entity } from "../../packages/server/src/engine/contract.ts";
import { openWith } from "../../packages/server/src/engine/disk/open.ts";
import { realWorld } from "../../packages/server/src/real-world.ts";
import { inlinePorts } from "../support/disk.ts";
import { expectedRow, expectedText, MESSAGES, ROWS, STREAMS } from "./pages-data.ts";

const dir = process.argv[2]!;

async function readAll(engine: Engine): Promise<string> {
  const listed: string[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const page = await engine.list("p", "stream", "", after, 50);
    listed.push(...page.ids);
    after = page.next;
  }
  if (listed.length !== STREAMS) return `lost ${listed.length} streams are listed`;
  for (let i = 0; i < STREAMS; i++) {
    const e = entity("p", "stream", `s${i}`);
    const { rev, head } = await engine.load(e, []);
    if (rev === 0) return `lost stream ${i} does not exist`;
    const { messages } = await engine.read(e, { generation: 0, seq: 0 }, 1 << 30);
    if (messages.length !== MESSAGES || head.last.seq !== MESSAGES)
      return `lost stream ${i} has ${messages.length} messages`;
    for (const [k, { payload }] of messages.entries()) {
      if (Buffer.from(payload).toString() !== expectedText(i, k)) return `wrong message ${k} of stream ${i} is another`;
    }
    const rows = await engine.rows(e, "t", "", 1_000);
    if (rows.length !== ROWS) return `lost stream ${i} has ${rows.length} rows`;
    for (const [k, { value }] of rows.entries()) {
      if (Buffer.from(value).toString() !== expectedRow(i, k)) return `wrong row ${k} of stream ${i} is another`;
    }
  }
  return "same";
}

let engine: Engine | undefined;
try {
  engine = await openWith({ dir, world: realWorld(), limits: { segmentBytes: 8_192 } }, inlinePorts());
  console.log(await readAll(engine));
} catch (fault) {
  if (fault instanceof EngineError) console.log(`refused ${fault.code} ${fault.message}`);
  else console.log(`wrong fault ${(fault as Error).stack?.replaceAll("\n", " | ")}`);
}
process.exit(0);
