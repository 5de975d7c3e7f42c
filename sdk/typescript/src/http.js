/**
 * The client over HTTP. It needs fetch and nothing else, so it works in browsers too.
 *
 * @module
 */
import { connectOver } from "./client.js";
import { ConnectionLostError, TrlError, reason } from "./errors.js";
import { LineSplitter } from "./lines.js";
export * from "./exports.js";
/** Connects to a daemon over HTTP. */
export async function connect(options) {
    return connectOver(new HTTPTransport(options), options);
}
/** A daemon behind HTTP: POST /v1/<method>, and streams as a JSON object per line. */
export class HTTPTransport {
    reconnects = true;
    #base;
    #headers;
    #fetch;
    #closing = new AbortController();
    constructor({ url, token, fetch: f = fetch }) {
        this.#base = new URL(url).href.replace(/\/+$/, "");
        // A call that takes long shows signs of life: fetch, browsers and proxies give up one that does not.
        const headers = { "content-type": "application/json", "x-trl-keep-alive": "1" };
        this.#headers = token ? { ...headers, authorization: `Bearer ${token}` } : headers;
        // A browser's fetch has to be called as a function of the window.
        this.#fetch = (input, init) => f(input, init);
    }
    async call(request, signal) {
        const [response, done] = await this.#post(request, "application/json", signal);
        try {
            const body = JSON.parse(await response.text());
            const { error } = body;
            if (error)
                throw TrlError.from(error); // an answer that took long has sent its status before
            return body;
        }
        catch (cause) {
            throw this.#explain(cause, signal);
        }
        finally {
            done();
        }
    }
    async open(request, signal) {
        const [response, done] = await this.#post(request, "application/x-ndjson", signal);
        const lines = new LineReader(response.body);
        const next = async () => {
            try {
                return JSON.parse(await lines.next());
            }
            catch (cause) {
                done();
                throw this.#explain(cause, signal);
            }
        };
        const start = await next();
        return { start, next: () => next(), close: done };
    }
    async close() {
        this.#closing.abort(new ConnectionLostError("the client is closed", true));
    }
    /** Sends a request. The returned function ends it, and must be called at the end. */
    async #post({ method, params }, accept, signal) {
        const ended = new AbortController();
        const abort = () => ended.abort();
        const done = () => {
            abort();
            signal?.removeEventListener("abort", abort);
            this.#closing.signal.removeEventListener("abort", abort);
        };
        for (const either of [signal, this.#closing.signal]) {
            if (either?.aborted)
                throw either.reason;
            either?.addEventListener("abort", abort, { once: true });
        }
        try {
            const response = await this.#fetch(`${this.#base}/v1/${method}`, {
                method: "POST",
                headers: { ...this.#headers, accept },
                body: JSON.stringify(params),
                signal: ended.signal,
                credentials: "omit",
                redirect: "error",
            });
            if (!response.ok)
                throw await refusal(response);
            return [response, done];
        }
        catch (cause) {
            done();
            throw this.#explain(cause, signal);
        }
    }
    /** Makes the error of a call: what the daemon or the signal said, or that the connection is lost. */
    #explain(cause, signal) {
        if (signal?.aborted)
            return signal.reason;
        if (this.#closing.signal.aborted)
            return this.#closing.signal.reason;
        if (cause instanceof TrlError)
            return cause;
        const inner = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
        const refused = inner?.code === "ECONNREFUSED"; // as far as the platform tells
        return new ConnectionLostError(`daemon at ${this.#base}: ${reason(inner)}`, !refused, cause);
    }
}
/** The error of an answer that is not good; a proxy's when it is not the daemon's own. */
async function refusal(response) {
    const text = await response.text();
    try {
        const { error } = JSON.parse(text);
        if (error?.code)
            return TrlError.from(error);
    }
    catch {
        // not the daemon's
    }
    const message = `HTTP status ${response.status} ${response.statusText}`.trim();
    if ([502, 503, 504].includes(response.status))
        return new ConnectionLostError(message, true);
    return new TrlError("INTERNAL_ERROR", message);
}
/** Reads lines, and no more bytes than the next one needs. */
class LineReader {
    #reader;
    #splitter = new LineSplitter();
    #lines = [];
    constructor(body) {
        this.#reader = body.getReader();
    }
    async next() {
        for (;;) {
            const line = this.#lines.shift();
            if (line !== undefined)
                return line;
            const { value, done } = await this.#reader.read();
            if (done)
                throw new Error("the daemon ended the stream");
            this.#lines = this.#splitter.take(value);
        }
    }
}
