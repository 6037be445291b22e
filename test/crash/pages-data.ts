/** What the directory holds whose pages are damaged. */
export const STREAMS = 60;
export const MESSAGES = 60;
export const ROWS = 5;

export const expectedText = (stream: number, k: number): string =>
  `text ${k} of ${stream} ${"=".repeat((stream * k) % 400)}`;
export const expectedRow = (stream: number, k: number): string => `row ${k} of ${stream}.`;
