/** The people on a page as a row of avatars, one for each person. */
import type { Member } from "@sluice/client";
import { type Person, personIn } from "./person.ts";

/** Members of one name are one person with several tabs. This tab comes first. */
export function avatarsOf(members: readonly Member[], ownSession: string): HTMLElement[] {
  const people = new Map<string, { person: Person; tabs: number; isMe: boolean }>();
  for (const { sessionId, state } of [...members].sort((a, b) => a.since - b.since)) {
    const person = personIn(state);
    const known = people.get(person.name) ?? { person, tabs: 0, isMe: false };
    people.set(person.name, { person, tabs: known.tabs + 1, isMe: known.isMe || sessionId === ownSession });
  }
  const all = [...people.values()].sort((a, b) => Number(b.isMe) - Number(a.isMe));
  return all.map(({ person, tabs, isMe }) => {
    const item = document.createElement("li");
    const who = `${person.name}${isMe ? " (you)" : ""}`;
    const label = Object.assign(document.createElement("span"), { textContent: who });
    item.append(avatarOf(person), label);
    if (tabs > 1) item.append(Object.assign(document.createElement("small"), { textContent: `${tabs} tabs` }));
    return item;
  });
}

export function avatarOf({ name, tone }: Person): HTMLElement {
  const avatar = Object.assign(document.createElement("span"), { className: "avatar", textContent: name[0] });
  avatar.dataset.tone = String(tone);
  avatar.setAttribute("aria-hidden", "true");
  return avatar;
}
