/**
 * Where a request keeps its token: `Authorization: Bearer`, or the cookie `sluice_token`. A browser sends the cookie by itself,
 * whoever made it send the request, so then the Origin must be one that may. Used by the gate; details never quote a token.
 */
import { type HttpRequest, queryValues, Refusal } from "../core/http.ts";

export const COOKIE = "sluice_token";
const BEARER = "Bearer ";

/** Whether a page of this origin may use the cookie with this request. */
export type CookieOrigins = (origin: string, request: HttpRequest) => boolean;

/** Throws a Refusal when there is none, or one that must not be used. */
export function tokenOf(request: HttpRequest, mayUseCookie: CookieOrigins): string {
  const authorization = request.header("authorization");
  if (authorization !== undefined) {
    const isPlain = authorization.startsWith(BEARER) && !authorization.includes(" ", BEARER.length);
    return isPlain ? authorization.slice(BEARER.length) : parseBearer(authorization);
  }
  if (request.search !== "" && queryValues(request.search, "token").length > 0) refuseAddressToken();
  const cookies = request.header("cookie");
  const token = cookies === undefined ? undefined : cookieToken(cookies);
  if (token === undefined) throw unauthenticated("a token is needed: Authorization: Bearer and a JWT");
  checkOrigin(request, mayUseCookie);
  return token;
}

/**
 * The place for the short-lived tokens of live sessions, which alone may stand in an address. An ordinary one may not:
 * addresses end up in logs and histories.
 */
function refuseAddressToken(): never {
  throw invalid("a token in the address must be a session token; send this one as Authorization: Bearer");
}

function parseBearer(authorization: string): string {
  const match = /^bearer +(\S+) *$/i.exec(authorization);
  if (match) return match[1]!;
  throw invalid("Authorization must be Bearer and a token");
}

/** Two of the name may come from two places, one of them not ours; then neither counts. */
function cookieToken(cookies: string): string | undefined {
  let token: string | undefined;
  for (const part of cookies.split(";")) {
    const cookie = part.trim();
    if (!cookie.startsWith(`${COOKIE}=`)) continue;
    if (token !== undefined) throw invalid(`the cookie ${COOKIE} is given more than once`);
    token = cookie.slice(COOKIE.length + 1);
  }
  return token;
}

function checkOrigin(request: HttpRequest, mayUseCookie: CookieOrigins): void {
  const origin = request.header("origin");
  const isSafe = request.method === "GET" || request.method === "HEAD";
  if (origin === undefined && isSafe) return;
  if (origin !== undefined && mayUseCookie(origin, request)) return;
  throw new Refusal(
    "forbidden",
    origin === undefined
      ? `a ${request.method} with the cookie ${COOKIE} needs an Origin`
      : `pages of this Origin may not use the cookie ${COOKIE}`,
  );
}

export function unauthenticated(detail: string): Refusal {
  return new Refusal("unauthenticated", detail, ["WWW-Authenticate", "Bearer"]);
}

export function invalid(detail: string): Refusal {
  return new Refusal("token-invalid", detail, ["WWW-Authenticate", 'Bearer error="invalid_token"']);
}
