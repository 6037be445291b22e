/** A stage that the tests of streams move in the steps in which a server sweeps, for what time alone does. */
import type { Streams } from "../../packages/server/src/streams/service.ts";
import type { EngineName } from "./server.ts";
import { openStage, type Stage } from "./stage.ts";

export interface AppInTime extends Pick<Stage, "url" | "app" | "now"> {
  readonly streams: Streams;
  /** Moves the clock in steps of half a second, as often as the server sweeps, and sweeps after each. */
  advance(ms: number): Promise<void>;
}

const SWEEP_EVERY_MS = 500;

export async function appInTime(engineName: EngineName): Promise<AppInTime> {
  const { url, app, now, pass, sweep } = await openStage(engineName);
  const advance = async (ms: number) => {
    for (let left = ms; left > 0; left -= SWEEP_EVERY_MS) {
      pass(Math.min(left, SWEEP_EVERY_MS));
      await sweep();
    }
  };
  return { url, app, streams: app.streams, now, advance };
}
