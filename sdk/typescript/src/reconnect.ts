import { ConnectionLostError, TrlError } from "./errors.js";
import { onAbort, type Transport } from "./transport.js";

const firstPauseMs = 10;
const longestPauseMs = 1000;

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
}

/** Whether the daemon was not there, or says itself that it is going away. */
export function isUnavailable(error: unknown): error is TrlError {
  return error instanceof TrlError && error.code === "RUNTIME_UNAVAILABLE";
}

/** Whether a request that ended with this error may have been carried out. */
export function mayHaveBeenDone(error: TrlError): boolean {
  return error instanceof ConnectionLostError ? error.sent : error.reason !== "starting";
}

/** The pauses between the attempts to reach a daemon that is not there. */
export class Patience {
  #link: Link;
  #budgetMs: number;
  #until: number | undefined;
  #pauseMs = 0;

  constructor(link: Link, options: ReconnectOptions) {
    const { reconnect = link.reconnect ?? {} } = options;
    this.#link = link;
    this.#budgetMs = reconnect && link.transport.reconnects ? (reconnect.timeoutS ?? 30) * 1000 : 0;
  }

  /** Forgets earlier failures: the daemon is there again. */
  renew(): void {
    this.#until = undefined;
    this.#pauseMs = 0;
  }

  /** Waits before the next attempt, or throws the error when there shall be none. `lastedMs` is how long the last one took. */
  async pause(error: TrlError, signal: AbortSignal | undefined, lastedMs = 0): Promise<void> {
    if (lastedMs > this.#budgetMs) this.renew(); // the daemon was there for a while: this is another loss
    const now = performance.now();
    this.#until ??= now + this.#budgetMs;
    if (this.#link.closed || now >= this.#until) throw error;
    // Many streams that lost the same daemon need not all come back in the same moment.
    const pauseMs = Math.min(this.#pauseMs * (0.5 + Math.random() / 2), this.#until - now);
    this.#pauseMs = Math.min(Math.max(2 * this.#pauseMs, firstPauseMs), longestPauseMs);
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
