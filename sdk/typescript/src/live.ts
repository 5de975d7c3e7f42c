import type { LineConnection } from "./connection.js";
import { dialer, type DialOptions } from "./dial.js";
import { ConnectionLostError, type TrlError } from "./errors.js";
import { Backoff } from "./reconnect.js";
import type { Push, Pushes } from "./transport.js";
import type { StreamStart } from "./types.js";

/** The states of a LiveConnection. In state over the login has ended, so the connection does not try again by itself. */
export type LiveState = "connecting" | "online" | "waiting" | "over";

/** A connection that lasted longer than this was a success: after its loss, the pauses begin with the shortest again. */
const steadyMs = 2000;

/** Where to connect to, and what to call when something changes. */
export interface LiveOptions extends DialOptions {
  /** Is called after every connect. Open the streams here, so that they are opened again after a loss. */
  onOpen?: (() => void) | undefined;
  /** Is called when the state has changed. */
  onChange?: (() => void) | undefined;
  /** Is called after a refused handshake, because a browser does not say why it was refused. Returns whether the login has ended. */
  isOver?: (() => Promise<boolean>) | undefined;
}

/**
 * One WebSocket that reconnects, for a page that shows whether it is connected. It uses the names of
 * the wire. It repeats nothing: a call whose answer is lost fails at once, and `onOpen` says when to
 * ask again.
 */
export class LiveConnection {
  #options: LiveOptions;
  #dial: (signal: AbortSignal | undefined) => Promise<LineConnection>;
  #backoff = new Backoff({ firstMs: 100, secondMs: 100, longestMs: 5000 });
  #state: LiveState = "connecting";
  #nextTry = 0;
  #lostAt = 0;
  #why: TrlError | undefined;
  #openedAt = 0;
  #attempt: AbortController | undefined; // while a connection is being made
  #connection: LineConnection | undefined;
  #streams = new Map<string, { pushes: Pushes; wanted: boolean }>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(options: LiveOptions) {
    this.#options = options;
    this.#dial = dialer(options);
    this.#connect();
  }

  get state(): LiveState {
    return this.#state;
  }

  /** When the next attempt begins, in milliseconds of Date.now(), in state waiting. */
  get nextTry(): number {
    return this.#nextTry;
  }

  /** When the connection was lost, in milliseconds of Date.now(); 0 while there is one. */
  get lostAt(): number {
    return this.#lostAt;
  }

  /** Why the last connection was lost, or could not be made. */
  get lastError(): TrlError | undefined {
    return this.#why;
  }

  /** Calls a method. */
  async call(method: string, params: object = {}): Promise<unknown> {
    return this.#online().call({ method, params: params as Record<string, unknown> });
  }

  /** Opens a stream, and calls `take` for each of its pushes until the stream or the connection ends. */
  stream(method: string, params: object, take: (push: Push) => void): Promise<StreamStart> {
    const opened = this.#open(method, params as Record<string, unknown>);
    const start = opened.then(({ pushes }) => pushes.start); // the caller has it before the first push
    opened.then((stream) => this.#deliver(stream, take)).catch(() => {});
    return start;
  }

  /** Ends a stream; none of its pushes is delivered any more. */
  end(streamID: string): void {
    const stream = this.#streams.get(streamID);
    if (!stream) return;
    stream.wanted = false;
    stream.pushes.close();
  }

  /** Drops the connection and makes a new one. */
  restart(): void {
    this.#connection?.hangUp();
  }

  /** Tries again now, in state waiting or over. */
  kick(): void {
    if (this.#state !== "waiting" && this.#state !== "over") return;
    this.#backoff.reset();
    this.#connect();
  }

  /** Ends the connection permanently. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const stream of this.#streams.values()) stream.wanted = false;
    this.#attempt?.abort();
    this.#connection?.lose("closed by this side");
  }

  #online(): LineConnection {
    if (!this.#connection) throw new ConnectionLostError("no connection to the daemon", false);
    return this.#connection;
  }

  async #open(method: string, params: Record<string, unknown>): Promise<{ pushes: Pushes; wanted: boolean }> {
    const connection = this.#online();
    const pushes: Pushes = await connection.open({ method, params }, undefined, () => {
      this.#streams.delete(pushes.start.stream_id);
      connection.closeStream(pushes.start.stream_id);
    });
    const stream = { pushes, wanted: true };
    this.#streams.set(pushes.start.stream_id, stream);
    return stream;
  }

  async #deliver(stream: { pushes: Pushes; wanted: boolean }, take: (push: Push) => void): Promise<void> {
    for (;;) {
      const push = await stream.pushes.next(); // fails when the stream is over
      if (!stream.wanted) return;
      try {
        take(push);
      } catch (error) {
        queueMicrotask(() => {
          throw error; // a fault of the page, which must not end the stream
        });
      }
    }
  }

  #connect(): void {
    if (this.#closed || this.#attempt || this.#connection) return;
    clearTimeout(this.#timer);
    this.#to("connecting");
    const attempt = (this.#attempt = new AbortController());
    this.#dial(attempt.signal).then(
      (connection) => this.#opened(connection),
      (error: TrlError) => {
        if (attempt.signal.aborted) return;
        this.#attempt = undefined;
        this.#lose(error);
        void this.#askWhy();
      },
    );
  }

  #opened(connection: LineConnection): void {
    this.#attempt = undefined;
    if (this.#closed) return connection.lose("closed by this side");
    this.#connection = connection;
    connection.onLost = (error) => {
      this.#connection = undefined;
      // A daemon that has no room for another connection accepts it and closes it at once.
      if (performance.now() - this.#openedAt > steadyMs) this.#backoff.reset();
      if (!this.#closed) this.#lose(error);
    };
    this.#openedAt = performance.now();
    this.#lostAt = 0;
    this.#to("online");
    this.#options.onOpen?.();
  }

  #lose(error: TrlError): void {
    this.#lostAt ||= Date.now();
    this.#why = error;
    if (error.code === "AUTH_FAILED" || error.code === "FORBIDDEN") return this.#to("over");
    const pauseMs = this.#backoff.next();
    this.#nextTry = Date.now() + pauseMs;
    this.#timer = setTimeout(() => this.#connect(), pauseMs);
    this.#to("waiting");
  }

  async #askWhy(): Promise<void> {
    const over = await this.#options.isOver?.().catch(() => false);
    if (!over || this.#closed || this.#state === "online") return;
    clearTimeout(this.#timer);
    this.#attempt?.abort();
    this.#attempt = undefined;
    this.#to("over");
  }

  #to(state: LiveState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#options.onChange?.();
  }
}
