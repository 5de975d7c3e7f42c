/**
 * The client for Node: over the socket of a daemon, over stdio, or over HTTP.
 *
 * @module
 */
import { connectOver } from "./client.js";
import { HTTPTransport } from "./http.js";
import { defaultSocket } from "./place.js";
import { SocketTransport, StdioTransport } from "./socket.js";
export * from "./exports.js";
export { defaultSocket } from "./place.js";
/**
 * Connects to a daemon: on its socket, by default; over HTTP with `url`, where the
 * token may also come from TRL_AUTH_TOKEN; or with `stdio` to one that is started for it.
 */
export async function connect(options = {}) {
    if ("url" in options) {
        return connectOver(new HTTPTransport({ ...options, token: options.token ?? process.env["TRL_AUTH_TOKEN"] }), options);
    }
    if ("stdio" in options)
        return connectOver(new StdioTransport(options.stdio), options);
    const { socket, start = socket === undefined } = options;
    return connectOver(new SocketTransport(socket ?? defaultSocket(), start), options);
}
/** Runs one command in a session of its own, on the daemon of this user. */
export async function run(command, options = {}) {
    const trl = await connect({ signal: options.signal });
    try {
        return await trl.run(command, options);
    }
    finally {
        await trl.close();
    }
}
