/**
 * Three people, the streams that each of them follows, and an invented day of notices. The server and the page import it.
 */
export interface Person {
  readonly id: string;
  readonly name: string;
  /** Topics; each is a stream `notices/<topic>`. */
  readonly follows: readonly string[];
}

/** The published value, which the page shows. */
export interface Notice {
  readonly text: string;
}

export const PEOPLE: readonly Person[] = [
  { id: "ada", name: "Ada", follows: ["ada", "design", "everyone"] },
  { id: "bob", name: "Bob", follows: ["bob", "support", "everyone"] },
  { id: "cy", name: "Cy", follows: ["cy", "design", "support", "everyone"] },
];

export const TOPICS: readonly string[] = [...PEOPLE.map(({ id }) => id), "design", "support", "everyone"];

export function streamOf(topic: string): string {
  return `notices/${topic}`;
}

/** Topic and text, in the order of the day. */
export const DAY: readonly (readonly [string, string])[] = [
  ["everyone", "Good morning! The coffee machine is back."],
  ["ada", "Your parcel is at the front desk."],
  ["design", "The new icons are ready for review."],
  ["support", "Two tickets came in overnight."],
  ["bob", "Cy assigned ticket 481 to you."],
  ["cy", "Your build passed in 3 min 12 s."],
  ["ada", "Bob mentioned you in “Onboarding”."],
  ["everyone", "Fire drill at eleven. Take the stairs."],
  ["support", "Ticket 481 has been waiting for an hour."],
  ["design", "Ada approved the new icons."],
  ["bob", "Lunch with Ada in ten minutes."],
  ["cy", "Your account was used on a new device."],
  ["everyone", "Version 4.2 is out. Thank you all!"],
  ["ada", "Three people liked your sketch."],
  ["support", "The queue is empty. Well done."],
  ["everyone", "That’s it for today. Mind the rain."],
];
