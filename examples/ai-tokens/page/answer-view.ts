/**
 * Shows a Markdown text while it grows. Handles only what the example's answers use: headings, paragraphs, lists, blocks of
 * code, strong, emphasis, code. Made by the page.
 *
 * Invariants: it removes and adds no text. Marks are hidden, not dropped, so the element's `textContent` is the text itself.
 * Text never becomes HTML.
 */

/** One block with the line breaks that follow it; the sources of all blocks together are the text. */
interface Block {
  readonly kind: "heading" | "list" | "code" | "paragraph";
  readonly source: string;
}

const STARTS = [
  ["heading", /^#{1,4}(?:\s|$)/],
  ["code", /^```/],
  ["list", /^(?:-|\d+\.)(?:\s|$)/],
] as const;

/** An open mark counts as closed by the end of the text, so that growing text does not flicker. */
const INLINE = /(`)([^`]*)(`|$)|(\*\*)([^*]*)(\*\*|\*?$)|(\*)(?=\S)([^*]*)(\*|$)/g;

export class AnswerView {
  private shown: string[] = [];
  private isGrowing = false;
  private isFrameAwaited = false;

  constructor(private readonly root: HTMLElement) {}

  /** Leaves unchanged blocks alone, so that a selection survives and each block is read out once, when it is complete. */
  show(text: string, state: "growing" | "complete"): void {
    this.isGrowing = state === "growing";
    this.keepEndInSight();
    const blocks = blocksOf(text);
    blocks.forEach((block, i) => {
      const isGrowing = this.isGrowing && i === blocks.length - 1;
      const key = `${isGrowing} ${block.source}`;
      if (this.shown[i] === key) return;
      this.shown[i] = key;
      const element = elementFor(block, isGrowing);
      const before = this.root.children[i];
      if (before === undefined) this.root.append(element);
      else before.replaceWith(element);
    });
    while (this.root.children.length > blocks.length) this.root.lastElementChild!.remove();
    this.shown.length = blocks.length;
  }

  clear(): void {
    this.root.replaceChildren();
    this.shown = [];
  }

  /**
   * A viewer at the end stays there until they scroll away. A text that is complete when first shown is read from its top.
   */
  private keepEndInSight(): void {
    if (this.isFrameAwaited) return;
    const wasAtEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 80;
    this.isFrameAwaited = true;
    requestAnimationFrame(() => {
      this.isFrameAwaited = false;
      if (this.isGrowing && wasAtEnd) scrollTo(0, document.documentElement.scrollHeight);
    });
  }
}

export function blocksOf(text: string): Block[] {
  const blocks: { kind: Block["kind"]; source: string }[] = [];
  let isOpen = false;
  for (const line of text.match(/[^\n]*\n|[^\n]+$/g) ?? []) {
    const last = blocks.at(-1);
    const isBlank = line.trim() === "";
    const kind = STARTS.find(([, start]) => start.test(line))?.[0] ?? "paragraph";
    const inCode: boolean = last?.kind === "code" && isOpen;
    if (last !== undefined && (inCode || isBlank || (isOpen && kind === last.kind && kind !== "heading"))) {
      last.source += line;
      isOpen = inCode ? !/^```\s*$/.test(line) : !isBlank;
    } else {
      blocks.push({ kind, source: line });
      isOpen = !isBlank;
    }
  }
  return blocks;
}

function elementFor({ kind, source }: Block, isGrowing: boolean): HTMLElement {
  const element = { heading, list, code, paragraph }[kind](source);
  if (isGrowing) {
    element.ariaHidden = "true";
    const innermost = element.querySelector(":scope > li:last-child, :scope:is(pre) > code") ?? element;
    innermost.append(make("span", "caret"));
  }
  return element;
}

function heading(source: string): HTMLElement {
  const [marks] = /^#+ ?/.exec(source)!;
  const element = make(`h${Math.min(4, marks.trim().length)}`);
  element.append(hidden(marks), ...inline(source.slice(marks.length)));
  return element;
}

function paragraph(source: string): HTMLElement {
  const element = make("p");
  element.append(...inline(source));
  return element;
}

function list(source: string): HTMLElement {
  const element = make(/^\d/.test(source) ? "ol" : "ul");
  for (const line of source.match(/[^\n]*\n+|[^\n]+$/g)!) {
    const [marks] = /^(?:-|\d+\.)\s?/.exec(line) ?? [""];
    const item = make("li");
    item.append(hidden(marks), ...inline(line.slice(marks.length)));
    element.append(item);
  }
  return element;
}

function code(source: string): HTMLElement {
  const [, opening, body, closing] = /^(```[^\n]*\n?)([\s\S]*?)(\n```\s*|\s*)$/.exec(source)!;
  const element = make("pre");
  element.dataset.language = opening!.slice(3).trim();
  const inner = make("code");
  inner.append(body!);
  element.append(hidden(opening!), inner, hidden(closing!));
  return element;
}

function inline(text: string): Node[] {
  const nodes: Node[] = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const [opening, body, closing] = match.slice(1).filter((group) => group !== undefined);
    const element = make({ "`": "code", "**": "strong", "*": "em" }[opening!]!);
    element.append(hidden(opening!), body!, hidden(closing!));
    nodes.push(new Text(text.slice(at, match.index)), element);
    at = match.index + match[0].length;
  }
  return [...nodes, new Text(text.slice(at))];
}

function hidden(marks: string): HTMLElement {
  const element = make("span");
  element.hidden = true;
  element.textContent = marks;
  return element;
}

function make(tag: string, className = ""): HTMLElement {
  const element = document.createElement(tag);
  if (className !== "") element.className = className;
  return element;
}
