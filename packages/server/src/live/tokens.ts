/**
 * Mints and verifies the tokens of sessions, with keys from the store. The service mints; auth verifies through
 * `SessionTokens`.
 *
 * Invariants: a token lives no longer than `tokenMs`, and no longer than the credentials of the caller that had it minted. Keys
 * that this process remembers are those of the store, because a key never changes.
 */
import type { Access } from "../core/action.ts";
import { base64url, fromBase64url, hex } from "../core/bytes.ts";
import { Refusal } from "../core/refusal.ts";
import type { World } from "../core/world.ts";
import type { Engine } from "../engine/contract.ts";
import type { Keepers } from "../engine/keeper.ts";
import { KEYS_ROW, type KeyLimits, keyRule, keysEntity, keysTable, type TokenKey } from "./key-rules.ts";
import type { SessionPort } from "./session-port.ts";
import { pointerTable } from "./state.ts";
import { isSessionToken, type Mac, readToken, type SessionToken, signToken } from "./token.ts";

const SECRET_BYTES = 32;
const ID_BYTES = 8;
/** Keys that are remembered, over all projects. */
const REMEMBERED = 1_000;

export interface Minted {
  readonly token: string;
  readonly untilMs: number;
}

export interface TokenParts {
  readonly engine: Engine;
  readonly keepers: Keepers;
  readonly world: World;
  readonly sessions: Pick<SessionPort, "entity">;
  readonly mac: Mac;
  readonly limits: KeyLimits;
}

export class Tokens {
  /** By project and id of the key. */
  private readonly known = new Map<string, Uint8Array>();

  constructor(private readonly parts: TokenParts) {}

  /** When a token that this caller has minted now will end. */
  untilFor({ grant }: Access): number {
    const { engine, limits } = this.parts;
    return Math.min(engine.now() + limits.tokenMs, grant.untilMs ?? Number.POSITIVE_INFINITY);
  }

  async mint(project: string, session: string, owner: string | undefined, access: Access): Promise<Minted> {
    const { scope, streams, untilMs: credentialsUntilMs } = access.grant;
    const key = await this.keyInUse(project);
    const untilMs = this.untilFor(access);
    const token = { key: key.id, project, session, subject: owner, scope, streams, untilMs, credentialsUntilMs };
    const text = signToken(token, secretOf(key), this.parts.mac);
    if (text === undefined) {
      throw new Refusal("forbidden", "the caller is confined to more streams than a session token can carry");
    }
    return { token: text, untilMs };
  }

  private keyInUse(project: string): Promise<TokenKey> {
    const { keepers, world, limits } = this.parts;
    const fresh = { id: hex(world.randomBytes(ID_BYTES)), secret: base64url(world.randomBytes(SECRET_BYTES)) };
    return keepers.submit(keysEntity(project), [KEYS_ROW], (view, now) => keyRule(view, now, fresh, limits));
  }

  isOne(token: string): boolean {
    return isSessionToken(token);
  }

  /** What the token says, expired or not; undefined if no key of this project signed it. */
  async verify(project: string, text: string) {
    const unproven = readToken(text);
    const secret = unproven && (await this.secretOf(project, unproven.key));
    const token = secret && unproven.prove(secret, this.parts.mac);
    if (token === undefined || token.project !== project) return undefined;
    return { ...token, subscribes: (stream: string) => this.subscribes(token, stream) };
  }

  private async secretOf(project: string, id: string): Promise<Uint8Array | undefined> {
    const name = `${project}/${id}`;
    const known = this.known.get(name);
    if (known !== undefined) return known;
    const { rows } = await this.parts.engine.load(keysEntity(project), [KEYS_ROW]);
    const key = (rows[0] ? keysTable.decode(rows[0]) : []).find((one) => one.id === id);
    if (key === undefined) return undefined;
    if (this.known.size >= REMEMBERED) this.known.clear();
    const secret = secretOf(key);
    this.known.set(name, secret);
    return secret;
  }

  private async subscribes({ project, session }: SessionToken, stream: string): Promise<boolean> {
    const { engine, sessions } = this.parts;
    const { rows } = await engine.load(sessions.entity(project, session), [pointerTable.at(stream)]);
    return rows[0] !== undefined;
  }
}

function secretOf({ secret }: TokenKey): Uint8Array {
  return fromBase64url(secret)!;
}
