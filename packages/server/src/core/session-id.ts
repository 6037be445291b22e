/**
 * The ids of sessions: UUIDs, in lower case. Sessions and live check the ids of requests here; live mints them.
 *
 * Invariants: a minted id is unguessable, because it holds 122 random bits.
 */
import { z } from "zod";
import { hex } from "./bytes.ts";
import type { World } from "./world.ts";

const UUID = { error: "must be a UUID" };

export const sessionId = z
  .string(UUID)
  .regex(/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/, UUID)
  .toLowerCase();

const ID_BYTES = 16;

/** A version 4 UUID, as RFC 9562 lays it out. */
export function newSessionId(world: Pick<World, "randomBytes">): string {
  const bytes = world.randomBytes(ID_BYTES);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const text = hex(bytes);
  return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join("-");
}
