/** `GET /v1/{project}/channels`: lists the channels of a project page by page. Called by `feature.ts`. */
import type { Access } from "../core/action.ts";
import { type ListingPage, listPage } from "../core/entity-listing.ts";
import type { Engine, LoggedMessage } from "../engine/contract.ts";
import type { LimitsFor } from "./defaults.ts";
import { lastSequence } from "./sequences.ts";
import { alive, CHANNEL, channelEntity, META, metaTable, type Phase } from "./state.ts";
import { STOP_ATTRIBUTES } from "./stopping.ts";

export interface ListedChannel {
  readonly channelId: string;
  /** Of the newest message. */
  readonly phase: Phase;
  readonly sequence: number;
  /** Messages that are kept. */
  readonly messages: number;
  readonly lastPublishAt: number;
}

export function listChannels(
  engine: Engine,
  project: string,
  access: Access,
  limitsFor: LimitsFor,
  search: string,
): Promise<ListingPage<ListedChannel>> {
  return listPage({
    search,
    ids: async (after, count) => (await engine.list(project, CHANNEL, "", after, count)).ids,
    describe: async (id) => {
      if (!access.sees(`channels/${id}`)) return "hidden";
      return describe(engine, project, id, limitsFor(project, id).ttlMs);
    },
  });
}

const TWO_ENTRIES_BYTES = 65_536;

async function describe(
  engine: Engine,
  project: string,
  channelId: string,
  ttlMs: number,
): Promise<ListedChannel | undefined> {
  const e = channelEntity(project, channelId);
  const { head, rows } = await engine.load(e, [META]);
  const meta = alive(rows[0] && metaTable.decode(rows[0]), ttlMs, engine.now());
  if (meta === undefined) return undefined;
  const { generation, seq } = head.last;
  // The newest entry may be the request to stop. The newest message then comes before it.
  const { messages } = await engine.read(e, { generation, seq: Math.max(0, seq - 2) }, TWO_ENTRIES_BYTES);
  const newest = messages.findLast(({ attributes }) => attributes?.phase !== STOP_ATTRIBUTES.phase);
  const hasStop = meta.stop !== undefined && meta.stop.at.seq > head.start.seq;
  return {
    channelId,
    phase: phaseOf(newest),
    sequence: lastSequence(meta.runs, seq),
    messages: seq - head.start.seq - (hasStop ? 1 : 0),
    lastPublishAt: newest?.at ?? head.at,
  };
}

function phaseOf(message: LoggedMessage | undefined): Phase {
  if (message === undefined) return "DELTA";
  return (JSON.parse(new TextDecoder().decode(message.payload)) as { phase: Phase }).phase;
}
