/**
 * The limits of logs and metrics, with their defaults. Compose passes them on. The configuration takes its defaults
 * from here, so that each default exists once.
 */
export interface LineLimits {
  /** How long a line may wait for further lines. */
  readonly holdMs: number;
  /** At this size the buffer is written without waiting for more. */
  readonly writeBytes: number;
  /** About how much may wait while the outlet accepts nothing. */
  readonly bufferBytes: number;
}

export interface LogLimits extends LineLimits {
  /** How long a shutdown waits for its last lines to be written. */
  readonly closeMs: number;
  /** The most characters logged of the message and the stack of a fault. */
  readonly faultChars: number;
  /** How many causes of a fault are logged with it. */
  readonly causes: number;
}

export const LOG_LIMITS: LogLimits = {
  holdMs: 100,
  writeBytes: 32 * 1_024,
  bufferBytes: 1_024 * 1_024,
  closeMs: 500,
  faultChars: 8 * 1_024,
  causes: 3,
};

export interface MetricLimits {
  /** How often Watch checks whether the engine accepts writes, to log a change. */
  readonly healthMs: number;
  /** The resolution of the event loop delay. */
  readonly eventLoopMs: number;
}

export const METRIC_LIMITS: MetricLimits = { healthMs: 1_000, eventLoopMs: 10 };
