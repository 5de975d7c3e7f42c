/**
 * The client over a WebSocket. It needs WebSocket and nothing else, so it works in browsers too.
 *
 * @module
 */
import { connectOver, type Trl } from "./client.js";
import { LineConnection } from "./connection.js";
import { ConnectionLostError } from "./errors.js";
import type { ReconnectOptions } from "./reconnect.js";
import { onAbort, type Abortable, type Pushes, type Transport, type WireRequest } from "./transport.js";

export * from "./exports.js";

/** How long the handshake may take. */
const handshakeMs = 10_000;

/** The part of a browser's WebSocket that is used here. */
export interface WebSocketLike {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

/** Where a daemon serves HTTP. */
export interface WebSocketOptions extends ReconnectOptions, Abortable {
  /** Such as http://127.0.0.1:7330, or the origin of the page. */
  url: string;
  token?: string | undefined;
  /** More subprotocols to offer, for a login that is not a token. */
  protocols?: readonly string[] | undefined;
  /** What to use instead of the global WebSocket. */
  WebSocket?: (new (url: string, protocols: string[]) => WebSocketLike) | undefined;
  /** Is called when a connection ends, with the code and the reason of the daemon: 1012, it stops or is replaced. */
  onClose?: ((code: number, reason: string) => void) | undefined;
}

/** Connects to a daemon over a WebSocket. */
export async function connect(options: WebSocketOptions): Promise<Trl> {
  return connectOver(new WebSocketTransport(options), options);
}

/**
 * A daemon behind a WebSocket. Calls and quiet streams share one connection; a terminal and the
 * output of a command have one of their own, so that a flood delays nothing else.
 */
export class WebSocketTransport implements Transport {
  readonly reconnects = true;
  readonly ties = true;
  onLost: (() => void) | undefined;
  #url: string;
  #protocols: string[];
  #make: new (url: string, protocols: string[]) => WebSocketLike;
  #onClose: WebSocketOptions["onClose"];
  #shared: LineConnection | undefined;
  #dialing: Promise<LineConnection> | undefined; // of #shared
  #own = new Set<LineConnection>();
  #turn: Promise<unknown> = Promise.resolve(); // browsers make one connection to a host at a time
  #closed = false;

  constructor({ url, token, protocols = [], WebSocket, onClose }: WebSocketOptions) {
    const at = new URL(url);
    at.protocol = at.protocol.replace(/^http/, "ws");
    this.#url = at.href.replace(/\/+$/, "") + "/v1/ws";
    this.#protocols = ["trl.v1", ...(token ? ["trl.token." + token] : []), ...protocols];
    const make = WebSocket ?? (globalThis as { WebSocket?: unknown }).WebSocket;
    if (!make) throw new TypeError("there is no WebSocket here; pass one in the options");
    this.#make = make as new (url: string, protocols: string[]) => WebSocketLike;
    this.#onClose = onClose;
  }

  async call(request: WireRequest, signal: AbortSignal | undefined, tied: boolean): Promise<unknown> {
    if (!tied || !signal) return (await this.#share()).call(request, signal);
    const connection = await this.#dialOwn(signal);
    try {
      return await connection.call(request, signal);
    } finally {
      this.#giveUp(connection);
    }
  }

  async open(request: WireRequest, signal: AbortSignal | undefined): Promise<Pushes> {
    if (request.method !== "session.attach" && request.method !== "exec.stream") {
      const shared = await this.#share();
      const pushes: Pushes = await shared.open(request, signal, () => shared.closeStream(pushes.start.stream_id));
      return pushes;
    }
    const connection = await this.#dialOwn(signal);
    try {
      return await connection.open(request, signal, () => this.#giveUp(connection));
    } catch (error) {
      this.#giveUp(connection);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#dialing?.catch(() => undefined);
    for (const connection of [this.#shared, ...this.#own]) connection?.lose("closed by this side");
  }

  /** The connection of all calls, a new one if it was lost. */
  async #share(): Promise<LineConnection> {
    if (this.#shared && !this.#shared.isLost) return this.#shared;
    this.#dialing ??= this.#dial(undefined)
      .then((connection) => {
        connection.onLost = () => {
          if (!this.#closed) this.onLost?.();
        };
        return connection;
      })
      .finally(() => (this.#dialing = undefined));
    return (this.#shared = await this.#dialing);
  }

  async #dialOwn(signal: AbortSignal | undefined): Promise<LineConnection> {
    const connection = await this.#dial(signal);
    this.#own.add(connection);
    return connection;
  }

  #giveUp(connection: LineConnection): void {
    this.#own.delete(connection);
    connection.lose("closed by this side");
  }

  /** Makes one connection after the other. */
  #dial(signal: AbortSignal | undefined): Promise<LineConnection> {
    const dialed = this.#turn.then(() => this.#connect(signal));
    this.#turn = dialed.catch(() => undefined);
    return dialed;
  }

  #connect(signal: AbortSignal | undefined): Promise<LineConnection> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#closed) return reject(new ConnectionLostError("the client is closed", false));
      const socket = new this.#make(this.#url, this.#protocols);
      const lines = new Lines();
      let connection: LineConnection | undefined;
      const fail = (why: string) => {
        settle();
        socket.close();
        reject(new ConnectionLostError(`daemon at ${this.#url}: ${why}`, false));
      };
      const timer = setTimeout(() => fail("no answer"), handshakeMs);
      const stop = onAbort(signal, (why) => {
        settle();
        socket.close();
        reject(why);
      });
      const settle = () => {
        clearTimeout(timer);
        stop();
      };
      socket.onerror = () => {}; // close follows, and knows more
      socket.onmessage = (event: { data?: unknown }) => lines.put(String(event.data));
      socket.onclose = (event: { code?: number; reason?: string }) => {
        const code = event.code ?? 1006;
        if (!connection) fail(event.reason || `closed with ${code}`);
        else if (!connection.isLost) this.#onClose?.(code, event.reason ?? "");
        lines.end();
      };
      socket.onopen = () => {
        settle();
        connection = new LineConnection({
          readable: lines,
          writable: { write: (line) => socket.send(line.trimEnd()) },
          hold: () => {},
          destroy: () => socket.close(),
        });
        if (this.#closed) {
          connection.lose("closed by this side");
          return reject(new ConnectionLostError("the client is closed", false));
        }
        resolve(connection);
      };
    });
  }
}

/** The messages of a WebSocket as lines, for one reader. */
class Lines implements AsyncIterable<Uint8Array> {
  #encoder = new TextEncoder();
  #waiting: Uint8Array[] = [];
  #over = false;
  #wake: (() => void) | undefined;

  put(message: string): void {
    this.#waiting.push(this.#encoder.encode(message + "\n"));
    this.#wake?.();
  }

  end(): void {
    this.#over = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next) yield next;
      else if (this.#over) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
