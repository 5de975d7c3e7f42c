import { LineConnection } from "./connection.js";
import { AuthFailedError, ConnectionLostError, ForbiddenError, type TrlError } from "./errors.js";
import { onAbort } from "./transport.js";

/** How long the handshake may take. */
const handshakeMs = 10_000;

/** The close code for a client whose login or token is no longer valid, and for one whose share is not. */
const loginOver = 4401;
const revoked = 4403;

/** The part of a browser's WebSocket that is used here. */
export interface WebSocketLike {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

/** Where a daemon serves HTTP, and how to log in there. */
export interface DialOptions {
  /** Such as http://127.0.0.1:7330, or the origin of the page. */
  url: string;
  token?: string | undefined;
  /** More subprotocols to offer, for a login that is not a token. A function is called for each connection. */
  protocols?: readonly string[] | (() => readonly string[]) | undefined;
  /** The WebSocket class to use instead of the global one. */
  WebSocket?: (new (url: string, protocols: string[]) => WebSocketLike) | undefined;
  /** Is called when a connection ends, with the daemon's close code and reason. 1012: the daemon stops or is replaced; 4401: the login or token is no longer valid; 4403: the share is not. */
  onClose?: ((code: number, reason: string) => void) | undefined;
}

/** Returns a function that makes a connection over a WebSocket. */
export function dialer({ url, token, protocols = [], WebSocket, onClose }: DialOptions): (signal: AbortSignal | undefined) => Promise<LineConnection> {
  const at = new URL(url);
  at.protocol = at.protocol.replace(/^http/, "ws");
  const address = at.href.replace(/\/+$/, "") + "/v1/ws";
  const found = WebSocket ?? (globalThis as { WebSocket?: unknown }).WebSocket;
  if (!found) throw new TypeError("there is no WebSocket here; pass one in the options");
  const Make = found as new (url: string, protocols: string[]) => WebSocketLike;
  const offered = () => ["trl.v1", ...(token ? ["trl.token." + token] : []), ...(typeof protocols === "function" ? protocols() : protocols)];

  const ended = (code: number, reason: string, sent: boolean): TrlError => {
    if (code === loginOver) return new AuthFailedError("AUTH_FAILED", reason || "the login is over", { close_code: code });
    if (code === revoked) return new ForbiddenError("FORBIDDEN", reason || "the share is over", { close_code: code });
    return new ConnectionLostError(`daemon at ${address}: closed with ${code}${reason && `: ${reason}`}`, sent, undefined, { close_code: code });
  };

  return (signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const socket = new Make(address, offered());
      const messages = new Messages();
      let connection: LineConnection | undefined;
      const settle = () => {
        clearTimeout(timer);
        stop();
      };
      const fail = (error: unknown) => {
        settle();
        socket.close();
        reject(error);
      };
      const timer = setTimeout(() => fail(new ConnectionLostError(`daemon at ${address}: no answer`, false)), handshakeMs);
      const stop = onAbort(signal, fail);
      // In a browser, the close event follows at once and has the reason; some other WebSockets do not send it.
      socket.onerror = () => setTimeout(() => !connection && fail(ended(1006, "", false)));
      socket.onmessage = (event: { data?: unknown }) => messages.put(String(event.data));
      socket.onclose = ({ code = 1006, reason = "" }: { code?: number; reason?: string }) => {
        if (!connection) return fail(ended(code, reason, false));
        if (!connection.isLost) onClose?.(code, reason);
        messages.end(ended(code, reason, true));
      };
      socket.onopen = () => {
        settle();
        connection = new LineConnection({
          readable: messages,
          writable: { write: (line) => socket.send(line.trimEnd()) },
          hold: () => {},
          destroy: () => socket.close(),
        });
        resolve(connection);
      };
    });
}

/** The messages of a WebSocket, for one reader. */
class Messages implements AsyncIterable<string> {
  #waiting: string[] = [];
  #over: TrlError | undefined;
  #wake: (() => void) | undefined;

  put(message: string): void {
    this.#waiting.push(message);
    this.#wake?.();
  }

  /** Ends with an error, after the messages that have arrived. */
  end(error: TrlError): void {
    this.#over = error;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#over) throw this.#over;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
