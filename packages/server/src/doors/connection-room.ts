/**
 * The connections that the doors of a server may have open together, so that idle clients cannot take the descriptors that the engine
 * needs. Compose makes one; every door asks it before it serves a connection.
 *
 * Invariants: at most `most` connections are open. A door that is given a part of the room never has more than that part.
 */
export interface Closing {
  once(event: "close", task: () => void): unknown;
}

export class ConnectionRoom {
  private taken = 0;

  constructor(
    readonly most: number,
    private readonly whole?: ConnectionRoom,
  ) {}

  /** A door's part of this room. */
  part(most: number): ConnectionRoom {
    return new ConnectionRoom(Math.max(1, Math.min(most, this.most)), this);
  }

  /** Lets a connection in until it closes, or returns false. */
  enter(connection: Closing): boolean {
    if (this.taken >= this.most || this.whole?.enter(connection) === false) return false;
    this.taken++;
    connection.once("close", () => this.taken--);
    return true;
  }
}
