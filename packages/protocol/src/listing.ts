/** One stream in a listing. The server writes it; the command line and the client read it. */
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
  /** For a sharded topic, which has no messages itself: the number of its shards. */
  readonly shards?: number | undefined;
}
