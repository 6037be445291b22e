/**
 * A world on the test's clock for engines whose flushes and round trips take real time. It counts the calls to the engine and the
 * tasks of the next turn of the event loop. The tests of pull use it on every engine.
 *
 * Invariants: the clock moves from timer to timer, and only while no call and no task is under way. So a slow machine changes no
 * outcome.
 */
import type { Engine } from "../../packages/server/src/engine/contract.ts";
import { type ManualWorld, manualWorld } from "./world.ts";

export interface QuietWorld extends ManualWorld {
  /** The same engine; `quiet` waits for its calls. */
  counted(engine: Engine): Engine;
  /** Resolves when nothing happens any more until the clock moves. */
  quiet(): Promise<void>;
  /** Moves the clock, and lets everything happen that a timer brings about before the next one. */
  pass(ms: number): Promise<void>;
}

export function quietWorld(seed: number): QuietWorld {
  const world = manualWorld(seed);
  let underWay = 0;
  let wake = () => {};
  const ended = () => {
    if (--underWay === 0) wake();
  };
  const soon = (task: () => void) => {
    underWay++;
    world.soon(() => {
      try {
        task();
      } finally {
        ended();
      }
    });
  };
  const awaited = <T>(answer: T): T => {
    if (answer instanceof Promise) {
      underWay++;
      answer.then(ended, ended);
    }
    return answer;
  };
  const quiet = async () => {
    for (;;) {
      // What follows from the last call runs in this turn at the latest, and may begin another one.
      await new Promise((resolve) => setImmediate(resolve));
      if (underWay === 0) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    ...world,
    soon,
    quiet,
    counted: (engine) =>
      new Proxy(engine, {
        get(of, name) {
          const value = of[name as keyof Engine];
          if (typeof value !== "function") return value;
          return (...asked: unknown[]) => awaited(Reflect.apply(value, of, asked));
        },
      }),
    async pass(ms) {
      await quiet();
      for (let leftMs = ms; leftMs > 0; ) {
        const stepMs = Math.min(leftMs, world.nextInMs());
        world.advance(stepMs);
        leftMs -= stepMs;
        await quiet();
      }
    },
  };
}
