/**
 * The credentials of an HTTP request: `Authorization`, the cookie `sluice_token`, or `?token=`. Created by the router.
 *
 * Invariants: no detail of a refusal quotes a token. The cookie counts only if the request's Origin may use it, because
 * a browser sends it with requests of any page.
 */
import type { AuthorizeRequest, Credentials } from "../../auth/identity.ts";
import { type HttpRequest, queryValues } from "../../core/http.ts";
import { Refusal } from "../../core/refusal.ts";

export const COOKIE = "sluice_token";

/** Whether a page of this origin may use the cookie with this request. */
export type CookieOrigins = (origin: string, request: HttpRequest) => boolean;

export class HttpCredentials implements Credentials {
  constructor(
    private readonly http: HttpRequest,
    private readonly mayUseCookie: CookieOrigins,
  ) {}

  get request(): AuthorizeRequest {
    return this.http;
  }

  get authorization(): string | undefined {
    return this.http.header("authorization");
  }

  get addressToken(): string | undefined {
    const { search } = this.http;
    return search === "" ? undefined : queryValues(search, "token")[0];
  }

  get cookieToken(): string | undefined {
    const cookies = this.http.header("cookie");
    const token = cookies === undefined ? undefined : tokenIn(cookies);
    if (token !== undefined) checkOrigin(this.http, this.mayUseCookie);
    return token;
  }
}

/** A page of another origin may have set a second cookie of the same name; then neither is used. */
function tokenIn(cookies: string): string | undefined {
  let token: string | undefined;
  for (const part of cookies.split(";")) {
    const cookie = part.trim();
    if (!cookie.startsWith(`${COOKIE}=`)) continue;
    if (token !== undefined)
      throw new Refusal("token-invalid", `the cookie ${COOKIE} is given more than once; delete it and sign in again`);
    token = cookie.slice(COOKIE.length + 1);
  }
  return token;
}

function checkOrigin(request: HttpRequest, mayUseCookie: CookieOrigins): void {
  const origin = request.header("origin");
  const isSafe = request.isUpgrade !== true && (request.method === "GET" || request.method === "HEAD");
  if (origin === undefined && isSafe) return;
  if (origin !== undefined && mayUseCookie(origin, request)) return;
  throw new Refusal(
    "forbidden",
    origin === undefined
      ? `a ${request.isUpgrade ? "WebSocket" : request.method} with the cookie ${COOKIE} needs an Origin header`
      : `pages of this Origin may not use the cookie ${COOKIE}`,
  );
}
