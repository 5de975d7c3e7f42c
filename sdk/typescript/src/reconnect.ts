import { ConnectionLostError, TrlError } from "./errors.js";
import { onAbort, type Transport, type WireRequest } from "./transport.js";


/** Whether and how long a lost connection is made again. */
export interface ReconnectOptions {
  /**
   * false: a lost connection is an error at once. Otherwise it is made again, with
   * growing pauses, for at most this many seconds. Absent: 30.
   */
  reconnect?: false | { timeoutS?: number } | undefined;
}

/** A transport with the decision how often to try it. */
export interface Link extends ReconnectOptions {
  readonly transport: Transport;
  readonly closed: boolean;
  /** Adds the position of the caller in a trace. */
  traced(request: WireRequest): WireRequest;
}

/** Whether the daemon was not there, or says itself that it is going away. */
export function isUnavailable(error: unknown): error is TrlError {
  return error instanceof TrlError && error.code === "RUNTIME_UNAVAILABLE";
}

/** Whether a request that ended with this error may have been carried out. */
export function mayHaveBeenDone(error: TrlError): boolean {
  return error instanceof ConnectionLostError ? error.sent : error.reason !== "starting";
}

/** Pauses that grow. Many clients that lost the same daemon need not all come back in the same moment. */
export class Backoff {
  #pauses: { firstMs: number; secondMs: number; longestMs: number };
  #nextMs: number;

  constructor(pauses: { firstMs: number; secondMs: number; longestMs: number }) {
    this.#pauses = pauses;
    this.#nextMs = pauses.firstMs;
  }

  /** How long the next pause is. */
  next(): number {
    const ms = this.#nextMs * (0.5 + Math.random() / 2);
    this.#nextMs = Math.min(Math.max(2 * this.#nextMs, this.#pauses.secondMs), this.#pauses.longestMs);
    return ms;
  }

  /** Begins with the first pause again. */
  reset(): void {
    this.#nextMs = this.#pauses.firstMs;
  }
}

/** The pauses between the attempts to reach a daemon that is not there. */
export class Patience {
  #link: Link;
  #budgetMs: number;
  #until: number | undefined;
  #backoff = new Backoff({ firstMs: 0, secondMs: 10, longestMs: 1000 });

  constructor(link: Link, options: ReconnectOptions) {
    const { reconnect = link.reconnect ?? {} } = options;
    this.#link = link;
    this.#budgetMs = reconnect && link.transport.reconnects ? (reconnect.timeoutS ?? 30) * 1000 : 0;
  }

  /** Forgets earlier failures: the daemon is there again. */
  renew(): void {
    this.#until = undefined;
    this.#backoff.reset();
  }

  /** Waits before the next attempt, or throws the error when there shall be none. `lastedMs` is how long the last one took. */
  async pause(error: TrlError, signal: AbortSignal | undefined, lastedMs = 0): Promise<void> {
    if (lastedMs > this.#budgetMs) this.renew(); // the daemon was there for a while: this is another loss
    const now = performance.now();
    this.#until ??= now + this.#budgetMs;
    if (this.#link.closed || now >= this.#until) throw error;
    const pauseMs = Math.min(this.#backoff.next(), this.#until - now);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        stop();
        resolve();
      }, pauseMs);
      const stop = onAbort(signal, (why) => {
        clearTimeout(timer);
        reject(why);
      });
    });
  }
}
