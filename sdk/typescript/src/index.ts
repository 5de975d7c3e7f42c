/**
 * The client for Node: over the socket of a daemon, over stdio, or over HTTP.
 *
 * @module
 */
import { connectOver, type OneRunOptions, type Trl } from "./client.js";
import { HTTPTransport, type HTTPOptions } from "./http.js";
import type { ReconnectOptions } from "./reconnect.js";
import type { ExecResult } from "./results.js";
import { defaultSocket } from "./place.js";
import { SocketTransport, StdioTransport } from "./socket.js";
import type { Abortable, TraceOptions } from "./transport.js";

export * from "./exports.js";
export { defaultSocket } from "./place.js";
export type { HTTPOptions } from "./http.js";

/** Where a daemon listens on a socket. */
export interface SocketOptions extends ReconnectOptions, TraceOptions, Abortable {
  /** The path of the socket. Absent: the socket of this user's daemon. */
  socket?: string | undefined;
  /**
   * Whether to start the daemon of this user, with the program trl on the PATH, if none
   * runs. Absent: true, unless `socket` is set.
   */
  start?: boolean | undefined;
}

/** A private daemon, which serves only this client. */
export interface StdioOptions extends TraceOptions, Abortable {
  /** The command, such as ["trl", "serve", "--stdio"]. */
  stdio: readonly string[];
}

/**
 * Connects to a daemon: by default over its socket; over HTTP with `url`, where the token
 * may also come from TRL_AUTH_TOKEN; or with `stdio` to a private daemon, which it starts.
 */
export async function connect(options: SocketOptions | HTTPOptions | StdioOptions = {}): Promise<Trl> {
  if ("url" in options) {
    return connectOver(new HTTPTransport({ ...options, token: options.token ?? process.env["TRL_AUTH_TOKEN"] }), options);
  }
  if ("stdio" in options) return connectOver(new StdioTransport(options.stdio), options);
  const { socket, start = socket === undefined ? true : undefined } = options;
  return connectOver(new SocketTransport(socket ?? defaultSocket(), start), options);
}

/** Runs one command in a session of its own, on the daemon of this user. */
export async function run(command: string, options: OneRunOptions = {}): Promise<ExecResult> {
  const trl = await connect({ signal: options.signal });
  try {
    return await trl.run(command, options);
  } finally {
    await trl.close();
  }
}
