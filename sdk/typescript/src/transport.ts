import type { StreamEvent, StreamStart } from "./types.js";

/** Options with an AbortSignal. */
export interface Abortable {
  /** Ends the wait; the promise is rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
}

/** A request with the names of the wire. */
export interface WireRequest {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The position of the caller in a trace. */
  readonly traceparent?: string | undefined;
}

/** Where the calls of a client belong in a trace. */
export interface TraceOptions {
  /**
   * A traceparent of W3C Trace Context, or a function that is called for each call and stream and
   * may return undefined. The spans of the daemon for the call then belong to that trace.
   */
  traceparent?: string | (() => string | undefined) | undefined;
}

/** The way to a daemon. A request without an answer fails with a ConnectionLostError. */
export interface Transport {
  /** Whether a new connection may be made after one was lost. */
  readonly reconnects: boolean;
  /** Whether a session can be tied to a connection, and end with it. */
  readonly ties: boolean;
  /** Is called when the connection to which sessions are tied was lost. */
  onLost?: (() => void) | undefined;
  /**
   * Sends a request and waits for the data of its answer. With `tied`, aborting the signal
   * also tells the daemon that the caller no longer waits. With `again` it continues what was
   * asked before: it starts no daemon if the last one was stopped on purpose.
   */
  call(request: WireRequest, signal: AbortSignal | undefined, tied: boolean, again?: boolean): Promise<unknown>;
  /** Opens a stream, with `again` as in `call`. The signal ends it at any time. */
  open(request: WireRequest, signal: AbortSignal | undefined, again?: boolean): Promise<Pushes>;
  close(): Promise<void>;
}

/** A push of a stream. */
export interface Push extends StreamEvent {
  /** The output, if it came as bytes and not in `data`. */
  raw?: Uint8Array;
}

/** An open stream. It is read no faster than next is called. */
export interface Pushes {
  readonly start: StreamStart;
  /** Returns the next push; throws a ConnectionLostError if the connection was lost. */
  next(): Promise<Push>;
  close(): void;
}

/** Calls `then` when the signal is aborted, until the returned function is called. */
export function onAbort(signal: AbortSignal | undefined, then: (reason: unknown) => void): () => void {
  if (!signal) return () => {};
  const listener = () => then(signal.reason);
  if (signal.aborted) listener();
  else signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}
