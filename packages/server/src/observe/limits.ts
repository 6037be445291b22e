/**
 * The bounds of logs and metrics, with their defaults. Compose hands them on; the configuration takes its defaults from here, so
 * that a default exists once.
 */
export interface LineLimits {
  /** How long a line may wait for others. */
  readonly holdMs: number;
  /** So much is written without waiting for more. */
  readonly writeChars: number;
  /** What may wait while the outlet takes nothing. */
  readonly bufferChars: number;
}

export interface LogLimits extends LineLimits {
  /** How long the end of a server waits until its last lines are written. */
  readonly closeMs: number;
  /** What is written of the message and the stack of a fault. */
  readonly faultChars: number;
  /** How many causes of a fault are written with it. */
  readonly causes: number;
}

export const LOG_LIMITS: LogLimits = {
  holdMs: 100,
  writeChars: 32 * 1_024,
  bufferChars: 1_024 * 1_024,
  closeMs: 500,
  faultChars: 8 * 1_024,
  causes: 3,
};

export interface MetricLimits {
  /** How often it is looked at whether the engine takes writes, to log a change. */
  readonly healthMs: number;
  /** How finely the delay of the event loop is measured. */
  readonly eventLoopMs: number;
}

export const METRIC_LIMITS: MetricLimits = { healthMs: 1_000, eventLoopMs: 10 };
