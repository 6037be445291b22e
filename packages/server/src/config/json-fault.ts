/**
 * Finds what is wrong with a JSON text, and in which line, in words that quote nothing of it: a configuration file may hold
 * secrets. file.ts calls it for files that JSON.parse refuses, and for those it accepts, because that lets a key be given twice.
 *
 * What must stay true: it accepts what JSON.parse accepts, but for keys given twice and for absurdly deep nesting.
 */

/** One token: white space and line breaks were skipped before. */
const TOKEN =
  /[{}[\]:,]|"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

const SPACE = /[ \t\r\n]*/y;

class Fault {
  constructor(
    readonly why: string,
    readonly at: number,
  ) {}
}

export function jsonFault(text: string): string | undefined {
  try {
    new Scan(text).whole();
    return undefined;
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    return `${fault.why}, at line ${text.slice(0, fault.at).split("\n").length}`;
  }
}

class Scan {
  /** Where the token in hand starts. */
  private at = 0;
  private end = 0;
  private token = "";

  constructor(private readonly text: string) {
    this.step();
  }

  whole(): void {
    this.value(0);
    if (this.token !== "") this.fail("something follows its end");
  }

  private value(depth: number): void {
    if (depth > 100) this.fail("it is nested too deep");
    const { token } = this;
    if (token === "{") this.object(depth);
    else if (token === "[") this.array(depth);
    else if (token === "" || "}]:,".includes(token)) this.fail("a value is missing");
    else this.step();
  }

  private object(depth: number): void {
    const keys = new Set<string>();
    this.step();
    if (this.passed("}")) return;
    for (;;) {
      if (!this.token.startsWith('"')) this.fail("a key in double quotes is missing");
      const key = JSON.parse(this.token) as string;
      if (keys.has(key)) this.fail("a key is given twice");
      keys.add(key);
      this.step();
      this.pass(":", "a colon is missing");
      this.value(depth + 1);
      if (this.passed("}")) return;
      this.pass(",", "a comma or the end of an object is missing");
    }
  }

  private array(depth: number): void {
    this.step();
    if (this.passed("]")) return;
    for (;;) {
      this.value(depth + 1);
      if (this.passed("]")) return;
      this.pass(",", "a comma or the end of a list is missing");
    }
  }

  private passed(token: string): boolean {
    if (this.token !== token) return false;
    this.step();
    return true;
  }

  private pass(token: string, why: string): void {
    if (!this.passed(token)) this.fail(why);
  }

  private step(): void {
    SPACE.lastIndex = this.end;
    SPACE.exec(this.text);
    this.at = SPACE.lastIndex;
    TOKEN.lastIndex = this.at;
    this.token = TOKEN.exec(this.text)?.[0] ?? "";
    this.end = this.at + this.token.length;
    if (this.token === "" && this.at < this.text.length) this.fail("something is not JSON");
  }

  private fail(why: string): never {
    throw new Fault(why, this.at);
  }
}
