export { Trl } from "./client.js";
export { Dialogue, DialogueStream, } from "./dialogue.js";
export { AgentFailedError, AuthFailedError, CommandFailedError, ConflictError, ConnectionLostError, DialogueEndedError, DialogueNotFoundError, ExecNotFoundError, ForbiddenError, InternalError, InvalidParamsError, MaxSessionsReachedError, MethodNotFoundError, RequestTooLargeError, ResourcePressureError, RuntimeUnavailableError, SessionBusyError, SessionLimitExceededError, SessionNotFoundError, SessionTerminatedError, ShellFailedError, ShellNotFoundError, TrlError, } from "./errors.js";
export { AnySession, Exec, Session, } from "./session.js";
export { Chunk, EventStream, ExecStream, OutputChunk } from "./stream.js";
export { Program, Snapshot, Terminal, TerminalOutput, TerminalStream, } from "./terminal.js";
export { apiVersion } from "./types.js";
