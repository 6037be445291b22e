/**
 * The certificate of the server, from two files, and the way from a connection to a TLS connection. Compose reads it; both doors
 * have their connections secured by it.
 *
 * Invariants: files that do not fit each other are never used: at the start they are refused, later the certificate in use stays.
 * A connection that does not complete its handshake in time is cut.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { createSecureContext, createServer, type Server } from "node:tls";
import type { Cancel, World } from "../../core/world.ts";
import type { TlsLimits } from "./defaults.ts";

export interface TlsFiles {
  /** The certificate, and after it those that lead to one that clients know. */
  readonly cert: string;
  readonly key: string;
}

/** Gets the connections of a port, and passes each on when it is secured. */
export type Secure = (take: (socket: Socket) => void) => (raw: Socket) => void;

interface Pem {
  readonly cert: Buffer;
  readonly key: Buffer;
}

export class Certificate {
  private readonly servers: Server[] = [];
  private timer: Cancel | undefined;

  private constructor(
    private readonly files: TlsFiles,
    private readonly limits: TlsLimits,
    private pem: Pem,
  ) {}

  /** Throws an Error that names the file and its fault. */
  static read(files: TlsFiles, limits: TlsLimits): Certificate {
    return new Certificate(files, limits, read(files));
  }

  /** `protocol`: what the port speaks, so that a client that wants another is told in the handshake. */
  secure(protocol: "http/1.1" | "h2"): Secure {
    return (take) => {
      const server = createServer({
        ...this.pem,
        ALPNProtocols: [protocol],
        handshakeTimeout: this.limits.handshakeMs,
      });
      server.on("secureConnection", take);
      server.on("tlsClientError", (_, socket) => socket.destroy());
      this.servers.push(server);
      return (raw) => {
        // A client that leaves during its handshake would be waited for.
        raw.allowHalfOpen = false;
        server.emit("connection", raw);
      };
    };
  }

  /** Uses renewed files for connections from then on. `told` gets what became of them. */
  follow(world: World, told: { renewed(until: string): void; refused(why: string): void }): void {
    let refused: { readonly why: string; isTold: boolean } | undefined;
    const look = () => {
      this.timer = world.after(this.limits.renewMs, look);
      try {
        if (this.renew()) told.renewed(new X509Certificate(this.pem.cert).validTo);
        refused = undefined;
      } catch (fault) {
        const { message: why } = fault as Error;
        // Both files are rarely written at once, so a first look may find only one of them renewed.
        if (refused?.why !== why) refused = { why, isTold: false };
        else if (!refused.isTold) {
          refused.isTold = true;
          told.refused(why);
        }
      }
    };
    this.timer = world.after(this.limits.renewMs, look);
  }

  stop(): void {
    this.timer?.();
  }

  private renew(): boolean {
    const pem = read(this.files);
    if (pem.cert.equals(this.pem.cert) && pem.key.equals(this.pem.key)) return false;
    this.pem = pem;
    for (const server of this.servers) server.setSecureContext(pem);
    return true;
  }
}

function read({ cert, key }: TlsFiles): Pem {
  const pem = { cert: contentOf("tls.cert", cert), key: contentOf("tls.key", key) };
  faultless("tls.cert", cert, "a certificate in PEM", () => createSecureContext({ cert: pem.cert }));
  faultless("tls.key", key, "a private key in PEM without a passphrase", () => createSecureContext({ key: pem.key }));
  faultless("tls.key", key, `the key of the certificate in ${cert}`, () => createSecureContext(pem));
  return pem;
}

function contentOf(setting: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (fault) {
    throw new Error(`${setting}: the file ${file} cannot be read: ${(fault as Error).message}`);
  }
}

function faultless(setting: string, file: string, what: string, check: () => void): void {
  try {
    check();
  } catch (fault) {
    throw new Error(`${setting}: the file ${file} is not ${what}: ${(fault as Error).message}`);
  }
}
