/** The people on a page as a row of avatars. */
import type { Member } from "@sluice/client";
import { type Person, personIn } from "./person.ts";

/** What every tab of a live page shows of itself. */
export interface State {
  readonly person: Person;
}

/** A person with several tabs is shown once. The person of this tab comes first. */
export function avatarsOf(members: readonly Member[], me: Person): HTMLElement[] {
  const people = new Map<string, { readonly person: Person; readonly tabs: number }>();
  for (const { state } of [...members].sort((a, b) => a.since - b.since)) {
    const person = personIn((state as Partial<State> | null)?.person);
    people.set(person.id, { person, tabs: (people.get(person.id)?.tabs ?? 0) + 1 });
  }
  const isMe = ({ person }: State) => Number(person.id === me.id);
  const all = [...people.values()].sort((a, b) => isMe(b) - isMe(a));
  return all.map(({ person, tabs }) => {
    const item = document.createElement("li");
    const who = person.id === me.id ? `${person.name} (you)` : person.name;
    item.append(avatarOf(person), Object.assign(document.createElement("span"), { textContent: who }));
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
