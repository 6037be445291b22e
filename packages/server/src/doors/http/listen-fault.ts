/** Why a door cannot listen, with the port and the host. The node adapter throws it; `code` stays the system's code. */
export function listenFault(fault: Error & { readonly code?: string }, host: string, port: number): Error {
  const { code } = fault;
  const said = textOf(code, host, port);
  return said === undefined ? fault : Object.assign(new Error(said, { cause: fault }), { code });
}

function textOf(code: string | undefined, host: string, port: number): string | undefined {
  switch (code) {
    case "EADDRINUSE":
      return `port ${port} of ${host} is in use`;
    case "EACCES":
      return `port ${port} of ${host} may not be used by this user`;
    case "EADDRNOTAVAIL":
      return `${host} is no address of this machine`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return /^[\d.]+$|:/.test(host)
        ? `${host} is not an address`
        : `${host} is neither an address nor a name that is known`;
    default:
      return undefined;
  }
}
