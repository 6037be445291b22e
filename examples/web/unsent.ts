/**
 * What a page has written and the server has not acknowledged yet, in the browser's local storage: it survives a reload, a crash
 * and a closed tab. The next page of this browser sends it.
 *
 * Invariants: each entry has a key of its own, so two tabs never overwrite each other. An entry may be sent twice; its readers
 * recognize it by its id.
 */
export class Unsent<T> {
  constructor(private readonly prefix: string) {}

  put(id: string, value: T): void {
    localStorage.setItem(this.keyOf(id), JSON.stringify(value));
  }

  delete(id: string): void {
    localStorage.removeItem(this.keyOf(id));
  }

  /** In the order of their ids. */
  all(): (readonly [id: string, value: T])[] {
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(this.prefix))
      .sort()
      .map((key) => [key.slice(this.prefix.length), JSON.parse(localStorage.getItem(key)!) as T]);
  }

  private keyOf(id: string): string {
    return this.prefix + id;
  }
}
