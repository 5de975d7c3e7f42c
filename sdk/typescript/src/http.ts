/**
 * The client over HTTP. It needs fetch and nothing else, so it works in browsers too.
 *
 * @module
 */
import { connectOver, type Trl } from "./client.js";
import { ConnectionLostError, TrlError, reason } from "./errors.js";
import { Cutter } from "./lines.js";
import type { ReconnectOptions } from "./reconnect.js";
import type { Abortable, Pushes, TraceOptions, Transport, WireRequest } from "./transport.js";
import type { ErrorBody, StreamEvent, StreamStart } from "./types.js";

export * from "./exports.js";

/** Where a daemon serves HTTP. */
export interface HTTPOptions extends ReconnectOptions, TraceOptions, Abortable {
  /** Such as http://127.0.0.1:7070. */
  url: string;
  token?: string | undefined;
  /** What to use instead of the global fetch. */
  fetch?: typeof fetch | undefined;
}

/** Connects to a daemon over HTTP. */
export async function connect(options: HTTPOptions): Promise<Trl> {
  return connectOver(new HTTPTransport(options), options);
}

/** A daemon behind HTTP: POST /v1/<method>, and streams as a JSON object per line. */
export class HTTPTransport implements Transport {
  readonly reconnects = true;
  readonly ties = false;
  #base: string;
  #headers: Record<string, string>;
  #fetch: typeof fetch;
  #closing = new AbortController();

  constructor({ url, token, fetch: f = fetch }: HTTPOptions) {
    this.#base = new URL(url).href.replace(/\/+$/, "");
    // The daemon sends signs of life during a long call: fetch, browsers and proxies give up a silent one.
    const headers = { "content-type": "application/json", "x-trl-keep-alive": "1" };
    this.#headers = token ? { ...headers, authorization: `Bearer ${token}` } : headers;
    // A browser's fetch has to be called as a function of the window.
    this.#fetch = (input, init) => f(input, init);
  }

  async call(request: WireRequest, signal: AbortSignal | undefined): Promise<unknown> {
    const [response, done] = await this.#post(request, "application/json", signal);
    try {
      const body: unknown = JSON.parse(await response.text());
      const { error } = body as { error?: ErrorBody };
      if (error) throw TrlError.from(error); // the status of an answer that took long was sent before the error was known
      return body;
    } catch (cause) {
      throw this.#explain(cause, signal);
    } finally {
      done();
    }
  }

  async open(request: WireRequest, signal: AbortSignal | undefined): Promise<Pushes> {
    const [response, done] = await this.#post(request, "application/x-ndjson", signal);
    const lines = new LineReader(response.body!);
    const next = async <T>(): Promise<T> => {
      try {
        return JSON.parse(await lines.next()) as T;
      } catch (cause) {
        done();
        throw this.#explain(cause, signal);
      }
    };
    const start = await next<StreamStart>();
    return { start, next: () => next<StreamEvent>(), close: done };
  }

  async close(): Promise<void> {
    this.#closing.abort(new ConnectionLostError("the client is closed", true));
  }

  /** Sends a request. The returned function ends it, and must be called at the end. */
  async #post({ method, params, traceparent }: WireRequest, accept: string, signal: AbortSignal | undefined): Promise<[Response, () => void]> {
    const ended = new AbortController();
    const abort = () => ended.abort();
    const done = () => {
      abort();
      signal?.removeEventListener("abort", abort);
      this.#closing.signal.removeEventListener("abort", abort);
    };
    for (const either of [signal, this.#closing.signal]) {
      if (either?.aborted) throw either.reason;
      either?.addEventListener("abort", abort, { once: true });
    }
    try {
      const response = await this.#fetch(`${this.#base}/v1/${method}`, {
        method: "POST",
        headers: { ...this.#headers, accept, ...(traceparent && !/[^\x21-\x7e]/.test(traceparent) && { traceparent }) },
        body: JSON.stringify(params),
        signal: ended.signal,
        credentials: "omit",
        redirect: "error",
      });
      if (!response.ok) throw await refusal(response);
      return [response, done];
    } catch (cause) {
      done();
      throw this.#explain(cause, signal);
    }
  }

  /** Returns the error of a call: that of the daemon, the reason of the signal, or a lost connection. */
  #explain(cause: unknown, signal: AbortSignal | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    if (this.#closing.signal.aborted) return this.#closing.signal.reason;
    if (cause instanceof TrlError) return cause;
    const inner = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
    const refused = (inner as { code?: string } | null)?.code === "ECONNREFUSED"; // if the platform reports it
    return new ConnectionLostError(`daemon at ${this.#base}: ${reason(inner)}`, !refused, cause);
  }
}

/** The error of an answer with an error status: that of the daemon, or else of a proxy before it. */
async function refusal(response: Response): Promise<TrlError> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error?: ErrorBody };
    if (error?.code) return TrlError.from(error);
  } catch {
    // the answer is not from the daemon
  }
  const message = `HTTP status ${response.status} ${response.statusText}`.trim();
  if ([502, 503, 504].includes(response.status)) return new ConnectionLostError(message, true);
  return new TrlError("INTERNAL_ERROR", message);
}

/** Reads lines, and no more bytes than the next one needs. */
class LineReader {
  #reader: ReadableStreamDefaultReader<Uint8Array>;
  #cutter = new Cutter();

  constructor(body: ReadableStream<Uint8Array>) {
    this.#reader = body.getReader();
  }

  async next(): Promise<string> {
    for (;;) {
      const line = this.#cutter.line();
      if (line !== undefined) return line;
      const { value, done } = await this.#reader.read();
      if (done) throw new Error("the daemon ended the stream");
      this.#cutter.feed(value);
    }
  }
}
