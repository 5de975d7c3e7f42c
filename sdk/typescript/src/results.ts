// The types of the wire under their names in TypeScript. types.ts documents them.
import type { Camel } from "./names.js";
import type * as wire from "./types.js";

export interface SessionInfo extends Camel<wire.SessionInfo> {}
export interface SessionDetails extends Camel<wire.SessionDetails> {}
export interface SessionDestroyResult extends Camel<wire.SessionDestroyResult> {}
export interface ExecOutcome extends Camel<wire.ExecOutcome> {}
export interface ExecInfo extends Camel<wire.ExecInfo> {}
export interface ExecInputResult extends Camel<wire.ExecInputResult> {}
export interface SessionInputResult extends Camel<wire.SessionInputResult> {}
export interface SessionResizeResult extends Camel<wire.SessionResizeResult> {}
export interface SessionScreenResult extends Camel<wire.SessionScreenResult> {}
export interface SessionWaitResult extends Camel<wire.SessionWaitResult> {}
export interface DialogueInfo extends Camel<wire.DialogueInfo> {}
export interface DialogueSendResult extends Camel<wire.DialogueSendResult> {}
export interface DialogueEvent extends Camel<wire.DialogueEvent> {}
export interface DialogueTranscript extends Camel<wire.DialogueTranscriptResult> {}
export interface DialogueTurn extends Camel<wire.DialogueTurn> {}
export interface DialogueItem extends Camel<wire.DialogueItem> {}
export interface DialogueTask extends Camel<wire.DialogueTask> {}
export interface DialogueRequest extends Camel<wire.DialogueRequest> {}
export interface DialogueEnd extends Camel<wire.DialogueEnd> {}
export interface WaitEvent extends Camel<wire.WaitEvent> {}

/** How a command ended and what it printed. */
export interface ExecResult extends Camel<wire.ExecResult> {
  /** Whether the exit code is 0: a command that timed out or was cancelled has another. */
  readonly ok: boolean;
  /** Returns the result itself; throws a CommandFailedError unless it is ok. */
  check(): ExecResult;
  /** The exact bytes of stdout, as far as the result carries it. */
  readonly stdoutData: Uint8Array;
  /** The exact bytes of stderr, as far as the result carries it. */
  readonly stderrData: Uint8Array;
}

/** A piece of the kept output of a command. */
export interface ExecOutputResult extends Camel<wire.ExecOutputResult> {
  /** The exact bytes of data. */
  readonly bytes: Uint8Array;
}

/** Something happened to a session or a command. The outcome is there for `exec.exited`. */
export interface LifecycleEvent extends Partial<ExecOutcome> {
  type: Exclude<wire.EventFilter, "session" | "exec">;
  seq: number;
  at: string;
  sessionId: string;
  name?: string;
  execId?: string;
  cause?: string;
}

/** The events with the numbers from `from` to `to` are no longer kept. */
export interface MissedEvent {
  type: "missed";
  seq: number;
  from: number;
  to: number;
}

/** The methods that `call` takes: all that do not stream. */
export type CallMethod = Exclude<wire.Method, wire.StreamingMethod>;

/** The parameters of a method, with their names in TypeScript. */
export type CallParams<M extends CallMethod> = Camel<wire.Params<M>>;

/** The result of a method, with its names in TypeScript. */
export type CallResult<M extends CallMethod> = Camel<wire.Result<M>>;
