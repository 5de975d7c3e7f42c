import type { ErrorBody, ErrorCode } from "./types.js";

/** A stable name of a kind of error. A newer daemon may know more than this version. */
export type Code = ErrorCode | (string & {});

/**
 * What a method answers when it cannot do what it was asked. A command that
 * fails is not an error but a result; see `exitCode`.
 */
export class TrlError extends Error {
  override name = "TrlError";
  readonly code: Code;
  /** Facts about the error, named as on the wire. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: Code, message: string, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.details = details;
  }

  /** Makes an error of what the daemon said. */
  static from(body: Partial<ErrorBody> | undefined): TrlError {
    return new TrlError(body?.code ?? "INTERNAL_ERROR", body?.message ?? "the daemon gave no reason", body?.details ?? {});
  }
}

/**
 * The daemon cannot be reached, or went away before it answered. The code is
 * RUNTIME_UNAVAILABLE, as everywhere in TRL. That of a stream has in `details` the
 * exec_id and after_seq with which it can be read on later.
 */
export class ConnectionLostError extends TrlError {
  override name = "ConnectionLostError";
  /**
   * Whether the request may have reached the daemon. If so, a command may have
   * been started, and may still run: look with `exec.list` before repeating it.
   */
  readonly sent: boolean;

  constructor(message: string, sent: boolean, cause?: unknown, details: Record<string, unknown> = {}) {
    super("RUNTIME_UNAVAILABLE", message, details, { cause });
    this.sent = sent;
  }
}

/** The words of any thrown thing. */
export function reason(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  return cause.message || (cause as { code?: string }).code || cause.name;
}
