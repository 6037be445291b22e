/** One stream as a listing shows it. The server writes it; the command line and the client read it. */
export interface ListedStream {
  readonly path: string;
  readonly contentType: string;
  readonly nextOffset: string;
  readonly messages: number;
  readonly bytes: number;
  readonly closed: boolean;
  readonly createdAt: number;
  readonly lastAppendAt: number | null;
  readonly expiresAt: number | null;
  /** Of a sharded topic, which has no messages itself: how many shards have them. */
  readonly shards?: number | undefined;
}
