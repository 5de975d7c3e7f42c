import { ConnectionLostError, TrlError } from "./errors.js";
import { onAbort, type Transport, type WireRequest } from "./transport.js";


/** Whether, and for how long, a client reconnects. */
export interface ReconnectOptions {
  /**
   * false: a lost connection is an error at once. Otherwise the client tries to reconnect,
   * with growing pauses, for at most this many seconds. Absent: 30.
   */
  reconnect?: false | { timeoutS?: number } | undefined;
}

/** A transport, with the rule for reconnecting. */
export interface Link extends ReconnectOptions {
  readonly transport: Transport;
  readonly closed: boolean;
  /** Adds the position of the caller in a trace. */
  traced(request: WireRequest): WireRequest;
}

/** The methods whose repeated call waits for earlier work. */
export const lasting: ReadonlySet<string> = new Set(["exec.run", "exec.start", "exec.wait", "session.wait", "exec.stream", "session.attach"]);

/** The methods that leave nothing if they fail. */
const creating: ReadonlySet<string> = new Set(["session.create", "dialogue.create"]);

/**
 * Whether the next daemon must not be asked: this one was stopped, and has ended its sessions. There is nothing
 * left to wait for, and nothing is created behind the user's back.
 */
export function isOver({ method }: WireRequest, error: TrlError): boolean {
  return (lasting.has(method) || creating.has(method)) && error.details["sessions"] === "ended";
}

/** Whether a daemon that is ending refused or cancelled a creation, so that the next one may try. */
export function isNotCreated({ method }: WireRequest, error: TrlError): boolean {
  return creating.has(method) && !(error instanceof ConnectionLostError) && error.reason === "stopping";
}

/** The reason of an error because a user stopped the daemon, and only a new call may start another. */
export const stopped = "stopped";

/** Whether the daemon could not be reached, or answered that it is starting or stopping. */
export function isUnavailable(error: unknown): error is TrlError {
  return error instanceof TrlError && error.code === "RUNTIME_UNAVAILABLE";
}

/** Whether a request that failed with this error may have taken effect. */
export function mayHaveBeenDone(error: TrlError): boolean {
  return error instanceof ConnectionLostError ? error.sent : error.reason !== "starting";
}

/** Growing pauses with a random part, so that the clients of a daemon that ended do not all return at once. */
export class Backoff {
  #pauses: { firstMs: number; secondMs: number; longestMs: number };
  #nextMs: number;

  constructor(pauses: { firstMs: number; secondMs: number; longestMs: number }) {
    this.#pauses = pauses;
    this.#nextMs = pauses.firstMs;
  }

  /** Returns the length of the next pause. */
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

/** The pauses between attempts to reach a daemon, and the time limit for them. */
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

  /** Forgets earlier failures, after the daemon has answered. */
  renew(): void {
    this.#until = undefined;
    this.#backoff.reset();
  }

  /** Waits before the next attempt, or throws the error if there must be none. `lastedMs` is how long the last attempt took. With `holds`, the wait keeps the process alive. */
  async pause(error: TrlError, signal: AbortSignal | undefined, lastedMs = 0, holds = true): Promise<void> {
    if (lastedMs > this.#budgetMs) this.renew(); // the daemon was reachable for a while, so this is a new loss
    const now = performance.now();
    this.#until ??= now + this.#budgetMs;
    if (this.#link.closed || now >= this.#until) throw error;
    const pauseMs = Math.min(this.#backoff.next(), this.#until - now);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        stop();
        resolve();
      }, pauseMs);
      if (!holds) (timer as { unref?(): void }).unref?.(); // a browser has no such method
      const stop = onAbort(signal, (why) => {
        clearTimeout(timer);
        reject(why);
      });
    });
  }
}
