/**
 * Finds the route and the names of a request's method and path, in a tree of levels built from the routes of all
 * features. The router calls it for every request; no later code reads the path again.
 *
 * Invariants: a literal level wins over a name, and there is no backtracking: a path that enters `__ds` never becomes a
 * stream's. A malformed path is refused before auth and services see it.
 */
import { memoOfTexts } from "../../core/memo.ts";
import { checkProject, DEFAULT_PROJECT, ROUTE_WORDS } from "../../core/project.ts";
import { Refusal } from "../../core/refusal.ts";
import type { AddressName, Names, Route } from "../../core/route.ts";
import type { Feature } from "../../feature.ts";

/** The routes of one address. */
interface Address {
  readonly byMethod: Map<string, Found>;
  allow: string;
}

/** A level of the tree. */
interface Level {
  /** The feature that added this level; it renders refusals below it. */
  readonly feature: Feature;
  readonly literals: Map<string, Level>;
  /** The next level is a name. */
  named: { readonly name: AddressName; readonly level: Level } | undefined;
  /** The whole rest of the path is a name. */
  rest: { readonly name: AddressName; readonly address: Address } | undefined;
  /** The path may end here. */
  address: Address | undefined;
}

export interface Found {
  readonly route: Route;
  readonly feature: Feature;
}

/** Where a path leads: the feature that answers there, and its address if there is one. */
export interface Place {
  readonly project: string | undefined;
  readonly feature: Feature | undefined;
  readonly address: Address | undefined;
  /** Names and their percent-encoded texts, in turn. */
  readonly encoded: readonly (AddressName | string)[];
  /** What `namesOf` has read, because requests of the same path share their place. */
  names?: Readonly<Names>;
}

const PREFIX = "/v1/";
const PROJECT = `${PREFIX}{project}/`;
const REST = "{path}";
const NOTHING: readonly (AddressName | string)[] = [];

export class RouteTree {
  /** By the word after the project. */
  private readonly words = new Map<string, Level>();
  /** Addresses of the whole server, by their path. */
  private readonly server = new Map<string, { readonly feature: Feature; readonly address: Address }>();

  constructor(private readonly features: readonly Feature[]) {
    for (const feature of features) for (const route of feature.routes) this.add(feature, route);
  }

  private add(feature: Feature, route: Route): void {
    addRoute(this.addressOf(feature, route.address), feature, route);
  }

  /** Creates the levels that an address needs. */
  private addressOf(feature: Feature, text: string): Address {
    if (!text.startsWith(PROJECT)) {
      const known = this.server.get(text) ?? { feature, address: newAddress() };
      this.server.set(text, known);
      return known.address;
    }
    const [word, ...levels] = text.slice(PROJECT.length).split("/");
    if (!ROUTE_WORDS.has(word!)) throw new Error(`${text}: ${word} is not one of the words that no project may take`);
    let level = this.words.get(word!) ?? newLevel(feature);
    this.words.set(word!, level);
    for (const [i, part] of levels.entries()) {
      if (part === REST && i === levels.length - 1) {
        level.rest ??= { name: addressName(this.features, feature, part), address: newAddress() };
        return level.rest.address;
      }
      level = part.startsWith("{") ? this.nameBelow(level, feature, part) : literalBelow(level, feature, part);
    }
    level.address ??= newAddress();
    return level.address;
  }

  private nameBelow(level: Level, feature: Feature, part: string): Level {
    level.named ??= { name: addressName(this.features, feature, part), level: newLevel(feature) };
    return level.named.level;
  }

  /** Throws a Refusal for an invalid project name. */
  readonly find = memoOfTexts((path) => this.placeOf(path));

  private placeOf(path: string): Place {
    if (!path.startsWith(PREFIX)) {
      const known = this.server.get(path);
      return { project: undefined, feature: known?.feature, address: known?.address, encoded: NOTHING };
    }
    const slash = path.indexOf("/", PREFIX.length);
    const first = slash < 0 ? path.slice(PREFIX.length) : path.slice(PREFIX.length, slash);
    if (ROUTE_WORDS.has(first)) return this.descend(DEFAULT_PROJECT, path, first, slash);
    checkProject(first);
    if (slash < 0) return { project: first, feature: undefined, address: undefined, encoded: NOTHING };
    const end = path.indexOf("/", slash + 1);
    return this.descend(first, path, end < 0 ? path.slice(slash + 1) : path.slice(slash + 1, end), end);
  }

  /** `slash`: the index of the slash after the word, or -1. */
  private descend(project: string, path: string, word: string, slash: number): Place {
    let level = this.words.get(word);
    let at = slash;
    let encoded = NOTHING;
    for (; level !== undefined && at >= 0; ) {
      const start = at + 1;
      const end = path.indexOf("/", start);
      const next = level.literals.size === 0 ? undefined : level.literals.get(segment(path, start, end));
      // A literal at the end of the path must be an address itself.
      if (next !== undefined && (end >= 0 || next.address !== undefined)) {
        level = next;
        at = end;
      } else if (level.rest !== undefined) {
        const { name, address } = level.rest;
        const rest = path.slice(start);
        const all = encoded.length === 0 ? [name, rest] : [...encoded, name, rest];
        return { project, feature: level.feature, address, encoded: all };
      } else if (level.named !== undefined) {
        encoded = [...encoded, level.named.name, segment(path, start, end)];
        level = level.named.level;
        at = end;
      } else return { project, feature: level.feature, address: undefined, encoded };
    }
    return { project, feature: level?.feature, address: level?.address, encoded };
  }
}

/** The route for a method. Throws a Refusal for an unknown address, and for a method that the address does not have. */
export function routeAt({ address }: Place, method: string, path: string): Found {
  if (address === undefined)
    throw new Refusal("no-route", `there is nothing at ${path}; /openapi.json lists all addresses`);
  const found = address.byMethod.get(method);
  if (found !== undefined) return found;
  throw new Refusal("method-not-allowed", `${method} is not allowed here; use ${address.allow}`, {
    allow: address.allow,
  });
}

/** The names in the path. Throws a Refusal for a malformed one. */
export function namesOf(place: Place): Readonly<Names> {
  if (place.names !== undefined) return place.names;
  const { encoded } = place;
  const names: Names = {
    stream: undefined,
    subscription: undefined,
    channel: undefined,
    session: undefined,
    group: undefined,
  };
  for (let i = 0; i < encoded.length; i += 2) {
    (encoded[i] as AddressName).read(encoded[i + 1] as string, names);
  }
  place.names = names;
  return names;
}

/** The meaning of a part in braces. The feature's own definition wins over another feature's. */
export function addressName(features: readonly Feature[], own: Feature, part: string): AddressName {
  const key = part.slice(1, -1);
  const name = own.names?.[key] ?? features.find(({ names }) => names?.[key] !== undefined)?.names?.[key];
  if (name === undefined) throw new Error(`no feature says what ${part} in an address means`);
  return name;
}

function segment(path: string, start: number, end: number): string {
  return end < 0 ? path.slice(start) : path.slice(start, end);
}

function newLevel(feature: Feature): Level {
  return { feature, literals: new Map(), named: undefined, rest: undefined, address: undefined };
}

function literalBelow(level: Level, feature: Feature, part: string): Level {
  const next = level.literals.get(part) ?? newLevel(feature);
  level.literals.set(part, next);
  return next;
}

function newAddress(): Address {
  return { byMethod: new Map(), allow: "" };
}

function addRoute(address: Address, feature: Feature, route: Route): void {
  for (const method of route.methods) address.byMethod.set(method, { route, feature });
  address.allow = [...address.byMethod.keys(), "OPTIONS"].join(", ");
}
