/**
 * The filters of subscriptions, in Google's grammar: which messages are delivered, by their attributes. The service parses a
 * filter when a subscription is created, the dispatcher runs it on every message.
 *
 *     expression := unary (AND unary)* | unary (OR unary)*        AND and OR are mixed with parentheses only
 *     unary      := [NOT | -] ( "(" expression ")" | condition )
 *     condition  := attributes:KEY | attributes.KEY = "…" | attributes.KEY != "…" | hasPrefix(attributes.KEY, "…")
 *
 * Invariants: a filter has at most 256 bytes, so parsing cannot recurse deeply. `!=` is the negation of `=`: it matches a message
 * without the attribute.
 */
import { isLonger } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";

export type Attributes = Readonly<Record<string, string>>;
export type Filter = (attributes: Attributes) => boolean;

export const MAX_FILTER_BYTES = 256;

const TOKEN = /\s*(?:([A-Za-z0-9_-]+)|"((?:[^"\\]|\\.)*)"|(!=|[=:.(),]))/y;

interface Token {
  readonly kind: "word" | "text" | "sign" | "end";
  readonly value: string;
}

/** Throws a Refusal if the text is not a filter. */
export function parseFilter(text: string): Filter {
  if (isLonger(text, MAX_FILTER_BYTES)) throw malformed(`has more than ${MAX_FILTER_BYTES} bytes`);
  const parser = new Parser(tokensOf(text));
  const filter = parser.expression();
  parser.end();
  return filter;
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (found === null) throw malformed(`cannot be read from character ${at + 1} on`);
    const [, word, quoted, sign] = found;
    if (word !== undefined) tokens.push(...wordTokens(word));
    else if (quoted !== undefined) tokens.push({ kind: "text", value: unescaped(quoted) });
    else tokens.push({ kind: "sign", value: sign! });
  }
  return tokens;
}

/** A minus in front of a condition negates it; everywhere else it is a part of a key. */
function wordTokens(word: string): Token[] {
  const isNegated = /^-+(attributes|hasPrefix)?$/.test(word);
  if (!isNegated) return [{ kind: "word", value: word }];
  const rest = word.replace(/^-+/, "");
  const signs = Array.from({ length: word.length - rest.length }, () => ({ kind: "sign", value: "-" }) as const);
  return rest === "" ? signs : [...signs, { kind: "word", value: rest }];
}

function unescaped(quoted: string): string {
  if (!quoted.includes("\\")) return quoted;
  return quoted.replace(/\\(u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-7]{3}|.)/gs, (_, code: string) => {
    if (/^[ux]./.test(code)) return String.fromCharCode(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]{3}$/.test(code)) return String.fromCharCode(Number.parseInt(code, 8));
    return ESCAPES[code] ?? code;
  });
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f", v: "\v" };

function malformed(why: string): Refusal {
  return new Refusal(
    "bad-filter",
    `the filter ${why}; a filter is like attributes.kind = "order" AND NOT attributes:test`,
  );
}

const END: Token = { kind: "end", value: "its end" };

class Parser {
  private at = 0;

  constructor(private readonly tokens: readonly Token[]) {}

  expression(): Filter {
    const first = this.unary();
    const joint = this.peek();
    if (joint.value !== "AND" && joint.value !== "OR") return first;
    const parts = [first];
    while (this.takes(joint.value)) parts.push(this.unary());
    const { value } = this.peek();
    if (value === "AND" || value === "OR") throw malformed("mixes AND and OR without parentheses");
    if (joint.value === "AND") return (attributes) => parts.every((part) => part(attributes));
    return (attributes) => parts.some((part) => part(attributes));
  }

  end(): void {
    if (this.peek() !== END) throw malformed(`has an unexpected ${JSON.stringify(this.peek().value)}`);
  }

  private unary(): Filter {
    if (this.takes("NOT") || this.takes("-")) {
      const negated = this.unary();
      return (attributes) => !negated(attributes);
    }
    if (this.takes("(")) {
      const inner = this.expression();
      this.expect(")");
      return inner;
    }
    return this.takes("hasPrefix") ? this.prefix() : this.condition();
  }

  private prefix(): Filter {
    this.expect("(");
    this.expect("attributes");
    this.expect(".");
    const key = this.key();
    this.expect(",");
    const prefix = this.text();
    this.expect(")");
    return (attributes) => own(attributes, key)?.startsWith(prefix) ?? false;
  }

  private condition(): Filter {
    this.expect("attributes");
    if (this.takes(":")) {
      const key = this.key();
      return (attributes) => own(attributes, key) !== undefined;
    }
    this.expect(".");
    const key = this.key();
    const isEqual = this.takes("=");
    if (!isEqual) this.expect("!=");
    const value = this.text();
    return (attributes) => (own(attributes, key) === value) === isEqual;
  }

  private key(): string {
    const { kind, value } = this.next();
    if (kind !== "word" && kind !== "text") throw malformed(`has ${JSON.stringify(value)} in place of a key`);
    return value;
  }

  private text(): string {
    const { kind, value } = this.next();
    if (kind !== "text") throw malformed(`has ${JSON.stringify(value)} in place of a quoted value`);
    return value;
  }

  private peek(): Token {
    return this.tokens[this.at] ?? END;
  }

  private next(): Token {
    const token = this.peek();
    this.at++;
    return token;
  }

  private takes(value: string): boolean {
    const token = this.peek();
    if (token.kind === "text" || token.value !== value) return false;
    this.at++;
    return true;
  }

  private expect(value: string): void {
    if (!this.takes(value)) throw malformed(`has ${JSON.stringify(this.peek().value)} in place of ${value}`);
  }
}

/** An inherited property is not an attribute. */
function own(attributes: Attributes, key: string): string | undefined {
  return Object.hasOwn(attributes, key) ? attributes[key] : undefined;
}
