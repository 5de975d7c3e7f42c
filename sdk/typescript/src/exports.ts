export { Trl, type EventOptions, type OneRunOptions, type ProgramOptions, type SessionOptions, type TerminalOptions } from "./client.js";
export {
  Dialogue,
  DialogueStream,
  type Answer,
  type DialogueEventOptions,
  type DialogueOptions,
  type RawOptions,
  type Reply,
  type SendOptions,
} from "./dialogue.js";
export {
  AgentFailedError,
  AuthFailedError,
  CancelledError,
  CommandFailedError,
  ConflictError,
  ConnectionLostError,
  DialogueEndedError,
  DialogueNotFoundError,
  ExecNotFoundError,
  ForbiddenError,
  InternalError,
  InvalidParamsError,
  MaxSessionsReachedError,
  MethodNotFoundError,
  RequestTooLargeError,
  ResourcePressureError,
  IsolationUnavailableError,
  LimitUnavailableError,
  RuntimeUnavailableError,
  SessionBusyError,
  SessionLimitExceededError,
  SessionNotFoundError,
  SessionTerminatedError,
  ShellFailedError,
  ShellNotFoundError,
  TrlError,
  type Code,
} from "./errors.js";
export type { ReconnectOptions } from "./reconnect.js";
export type * from "./results.js";
export {
  AnySession,
  Exec,
  Session,
  type AttachOptions,
  type ExecStreamOptions,
  type InputOptions,
  type OutputOptions,
  type RunOptions,
  type StartOptions,
  type WaitOptions,
} from "./session.js";
export { Chunk, EventStream, ExecStream, OutputChunk, type Exit, type Gap, type StreamItem, type StreamOptions, type TrlEvent } from "./stream.js";
export {
  Program,
  Snapshot,
  Terminal,
  TerminalOutput,
  TerminalStream,
  type BytesOptions,
  type Modes,
  type Resize,
  type ScreenOptions,
  type SessionWaitOptions,
  type TerminalItem,
  type TypeOptions,
  type ViewerOptions,
  type Viewers,
} from "./terminal.js";
export { Typist, type TypistInput, type TypistOptions } from "./typist.js";
export type { Abortable, Push, Pushes, TraceOptions, Transport, WireRequest } from "./transport.js";
export { apiVersion, type DialogueEventType, type DialogueState, type ErrorCode, type ExecState, type SessionKind, type SessionState, type StreamName, type WaitUntil } from "./types.js";
export type * as wire from "./types.js";
