/**
 * The client over a WebSocket. It needs WebSocket and nothing else, so it works in browsers too.
 *
 * @module
 */
import { connectOver, type Trl } from "./client.js";
import type { LineConnection } from "./connection.js";
import { dialer, type DialOptions } from "./dial.js";
import { AuthFailedError, ConnectionLostError } from "./errors.js";
import { HTTPTransport } from "./http.js";
import type { ReconnectOptions } from "./reconnect.js";
import type { Abortable, Pushes, TraceOptions, Transport, WireRequest } from "./transport.js";

export type { DialOptions, WebSocketLike } from "./dial.js";
export * from "./exports.js";
export { LiveConnection, type LiveOptions, type LiveState } from "./live.js";

/** Where a daemon serves HTTP, and how long to try. */
export interface WebSocketOptions extends DialOptions, ReconnectOptions, TraceOptions, Abortable {}

/** How long the request may take that finds out why a handshake was refused. */
const pingMs = 5_000;

/** Connects to a daemon over a WebSocket. */
export async function connect(options: WebSocketOptions): Promise<Trl> {
  return connectOver(new WebSocketTransport(options), options);
}

/**
 * A daemon behind a WebSocket. Calls and quiet streams share one connection; each terminal and each
 * output of a command has its own, so that a flood of output does not delay anything else.
 */
export class WebSocketTransport implements Transport {
  readonly reconnects = true;
  readonly ties = true;
  onLost: (() => void) | undefined;
  #connect: (signal: AbortSignal | undefined) => Promise<LineConnection>;
  #login: { url: string; token: string } | undefined;
  #shared: LineConnection | undefined;
  #dialing: Promise<LineConnection> | undefined; // of #shared
  #own = new Set<LineConnection>();
  #turn: Promise<unknown> = Promise.resolve(); // browsers make one connection to a host at a time
  #closed = false;

  constructor(options: DialOptions) {
    this.#connect = dialer(options);
    if (options.token) this.#login = { url: options.url, token: options.token };
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

  /** Makes connections one after the other. */
  #dial(signal: AbortSignal | undefined): Promise<LineConnection> {
    const dialed = this.#turn.then(async () => {
      const closed = new ConnectionLostError("the client is closed", false);
      if (this.#closed) throw closed;
      const connection = await this.#connect(signal).catch(async (error: unknown) => {
        signal?.throwIfAborted();
        throw (await this.#refusal()) ?? error;
      });
      if (!this.#closed) return connection;
      connection.lose("closed by this side");
      throw closed;
    });
    this.#turn = dialed.catch(() => undefined);
    return dialed;
  }

  /** A WebSocket does not say why its handshake was refused. A request over HTTP says whether it was the token. */
  async #refusal(): Promise<AuthFailedError | undefined> {
    if (!this.#login) return undefined;
    const http = new HTTPTransport(this.#login);
    try {
      await http.call({ method: "system.ping", params: {} }, AbortSignal.timeout(pingMs));
    } catch (error) {
      if (error instanceof AuthFailedError) return error;
    }
    return undefined;
  }
}
