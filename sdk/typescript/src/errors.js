import { camelName, camelPath } from "./names.js";
/**
 * The error of a method that could not do its work. A command that
 * fails is not an error but a result; see `ok` and `check`. Each code has a class below;
 * one that this version does not know is a plain TrlError.
 */
export class TrlError extends Error {
    code;
    /** Facts about the error, named as on the wire. */
    details;
    /** Whether the connection ended before an answer came. */
    lost = false;
    constructor(code, message, details = {}, options) {
        super(message, options);
        this.name = new.target.name;
        this.code = code;
        this.details = details;
    }
    /** Distinguishes errors with the same code, such as "starting"; "" if the code says it all. */
    get reason() {
        return typeof this.details.reason === "string" ? this.details.reason : "";
    }
    /** Makes an error of the error object of the daemon. */
    static from(body) {
        const code = body?.code ?? "INTERNAL_ERROR";
        const message = code === "INVALID_PARAMS" ? inCamel(body) : body?.message;
        return new (errorClasses[code] ?? TrlError)(code, message ?? "the daemon gave no reason", body?.details ?? {});
    }
}
/** A parameter is missing, unknown, or has an invalid value. */
export class InvalidParamsError extends TrlError {
}
/** The daemon does not know the method; it may be older than this client. */
export class MethodNotFoundError extends TrlError {
}
/** There is no session with that id or name. */
export class SessionNotFoundError extends TrlError {
}
/** The session runs another command; `wait: true` queues behind it. */
export class SessionBusyError extends TrlError {
}
/** The session has ended; its output can still be read. */
export class SessionTerminatedError extends TrlError {
}
/** There is no command with that id. */
export class ExecNotFoundError extends TrlError {
}
/** The daemon has as many sessions as max_sessions allows. */
export class MaxSessionsReachedError extends TrlError {
}
/** The shell or the program does not exist. */
export class ShellNotFoundError extends TrlError {
}
/** The shell or the program ended at once; the message has its stderr. */
export class ShellFailedError extends TrlError {
}
/** A limit of the session is reached. */
export class SessionLimitExceededError extends TrlError {
}
/** The machine has no memory, processes or disk space left for this. */
export class ResourcePressureError extends TrlError {
}
/** A limit cannot be enforced there: `details.limits` has the reasons. */
export class LimitUnavailableError extends TrlError {
}
/** Isolation cannot be enforced there: `details.aspects` has the reasons. */
export class IsolationUnavailableError extends TrlError {
}
/** The daemon, or the place of the session, cannot be reached now. */
export class RuntimeUnavailableError extends TrlError {
}
/** The request is larger than the daemon takes. */
export class RequestTooLargeError extends TrlError {
}
/** The token is missing or wrong. */
export class AuthFailedError extends TrlError {
}
/** The token does not allow this. */
export class ForbiddenError extends TrlError {
}
/** The name is taken, or another caller was first. */
export class ConflictError extends TrlError {
}
/** There is no dialogue with that id or name. */
export class DialogueNotFoundError extends TrlError {
}
/** The agent of the dialogue has ended; `resume` starts it again. */
export class DialogueEndedError extends TrlError {
}
/** The agent could not be started or broke its protocol. */
export class AgentFailedError extends TrlError {
}
/** The caller stopped waiting for the answer. */
export class CancelledError extends TrlError {
}
/** A fault of the daemon. */
export class InternalError extends TrlError {
}
/**
 * The daemon cannot be reached, or went away before it answered. The code is
 * RUNTIME_UNAVAILABLE, as everywhere in TRL. The error of a stream has in `details` the
 * exec_id and after_seq with which another stream continues; the error of a WebSocket has
 * the close_code.
 */
export class ConnectionLostError extends RuntimeUnavailableError {
    /**
     * Whether the request may have reached the daemon. If so, a command may have
     * been started, and may still run: look with `exec.list` before repeating it.
     */
    sent;
    constructor(message, sent, cause, details = {}) {
        super("RUNTIME_UNAVAILABLE", message, details, { cause });
        this.sent = sent;
        this.lost = true;
    }
}
/** The class of an error by its code. */
const errorClasses = {
    INVALID_PARAMS: InvalidParamsError,
    METHOD_NOT_FOUND: MethodNotFoundError,
    SESSION_NOT_FOUND: SessionNotFoundError,
    SESSION_BUSY: SessionBusyError,
    SESSION_TERMINATED: SessionTerminatedError,
    EXEC_NOT_FOUND: ExecNotFoundError,
    MAX_SESSIONS_REACHED: MaxSessionsReachedError,
    SHELL_NOT_FOUND: ShellNotFoundError,
    SHELL_FAILED: ShellFailedError,
    SESSION_LIMIT_EXCEEDED: SessionLimitExceededError,
    RESOURCE_PRESSURE: ResourcePressureError,
    LIMIT_UNAVAILABLE: LimitUnavailableError,
    ISOLATION_UNAVAILABLE: IsolationUnavailableError,
    RUNTIME_UNAVAILABLE: RuntimeUnavailableError,
    REQUEST_TOO_LARGE: RequestTooLargeError,
    AUTH_FAILED: AuthFailedError,
    FORBIDDEN: ForbiddenError,
    CONFLICT: ConflictError,
    DIALOGUE_NOT_FOUND: DialogueNotFoundError,
    DIALOGUE_ENDED: DialogueEndedError,
    AGENT_FAILED: AgentFailedError,
    CANCELLED: CancelledError,
    INTERNAL_ERROR: InternalError,
};
/** A command whose result was checked did not end with the exit code 0. */
export class CommandFailedError extends Error {
    name = "CommandFailedError";
    /** The result of the command. */
    result;
    constructor(result) {
        const how = result.timedOut ? "timed out" : result.cancelled ? "was cancelled" : `exit code ${result.exitCode}`;
        const last = result.stderr.trimEnd().split("\n").at(-1)?.slice(0, 200);
        super(`command ${how}${last ? `: ${last}` : ""}`);
        this.result = result;
    }
}
/** The message about a parameter, with the names that the caller of this SDK uses: its own, and the similar one. */
function inCamel({ message, details: { field, suggestion } = {} }) {
    if (typeof field === "string" && message?.startsWith(`params.${field}: `)) {
        message = `params.${camelPath(field)}${message.slice("params.".length + field.length)}`;
    }
    if (typeof suggestion !== "string")
        return message;
    return message?.replace(`did you mean "${suggestion}"?`, () => `did you mean "${camelName(suggestion)}"?`);
}
/** The message of any thrown value. */
export function reason(cause) {
    if (!(cause instanceof Error))
        return String(cause);
    return cause.message || cause.code || cause.name;
}
