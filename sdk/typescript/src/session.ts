import { dataFields, exactBytes, type TextOrBytes } from "./bytes.js";
import type { Trl } from "./client.js";
import { CommandFailedError } from "./errors.js";
import { newWriteID } from "./ids.js";
import { fromWire, toWire, type Camel } from "./names.js";
import type {
  ExecInfo,
  ExecInputResult,
  ExecOutputResult,
  ExecResult,
  SessionDestroyResult,
  SessionDetails,
  SessionInfo,
  WaitEvent,
} from "./results.js";
import { ExecStream, type StreamOptions } from "./stream.js";
import type { Abortable, WireRequest } from "./transport.js";
import type * as wire from "./types.js";

/** The options of a command. */
export interface RunOptions extends Omit<Camel<wire.ExecParams>, "sessionId" | "command" | "argv" | "stdin" | "stdinBase64" | "stdinOpen" | "backpressure">, Abortable {
  /** The stdin of the command. Absent: empty. */
  stdin?: TextOrBytes;
}

/** The options of a command that is started. */
export interface StartOptions extends RunOptions {
  /** Keeps stdin open, so that `input` can write to it. */
  stdinOpen?: boolean;
}

/** The options of a command whose output is streamed. */
export interface ExecStreamOptions extends StartOptions, StreamOptions, Pick<Camel<wire.ExecStreamParams>, "stream" | "backpressure"> {}

/** Which part of a command's output to stream. */
export interface AttachOptions extends StreamOptions, Pick<Camel<wire.ExecStreamParams>, "afterSeq" | "fromOffset" | "stream"> {}

/** What to wait for. Absent: the exit of the command. */
export interface WaitOptions extends Omit<Camel<wire.ExecWaitParams>, "execIds" | "sessionIds" | "all">, Abortable {}

/** Which part of the kept output to read. */
export interface OutputOptions extends Omit<Camel<wire.ExecOutputParams>, "execId">, Abortable {}

/** The options of input. */
export interface InputOptions extends Abortable {
  /** Ends the input after the data. */
  close?: boolean;
  /** The daemon does not write input with the same id twice. Absent: a new id. */
  writeId?: string;
}

/** The methods that every kind of session has. */
export abstract class AnySession {
  readonly id: string;
  /** The session as it was when it was created or found. */
  readonly created: SessionInfo;
  /** @internal */
  protected readonly trl: Trl;

  /** Called by Trl. */
  constructor(trl: Trl, info: SessionInfo) {
    this.trl = trl;
    this.id = info.sessionId;
    this.created = info;
  }

  /** Returns the current details of the session. */
  async info(options: Abortable = {}): Promise<SessionDetails> {
    return this.trl.call("session.info", { sessionId: this.id }, options);
  }

  /** Changes the name ("" for none), the tags, or the time limits of the session. */
  async set(what: Omit<Camel<wire.SessionSetParams>, "sessionId">, options: Abortable = {}): Promise<SessionInfo> {
    return this.trl.call("session.set", { sessionId: this.id, ...what }, options);
  }

  /** Ends the session and every process in it. With force, at once. */
  async destroy(options: Abortable & { force?: boolean } = {}): Promise<SessionDestroyResult> {
    const { signal, ...rest } = options;
    return this.trl.call("session.destroy", { sessionId: this.id, ...rest }, { signal });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.trl.leave({ method: "session.destroy", params: { session_id: this.id } }, "SESSION_NOT_FOUND");
  }
}

/** A session with a live shell: a command finds the directory and variables that the command before it set. */
export class Session extends AnySession {
  /**
   * Runs a command and waits for its outcome. A string is text for the shell; a list is a program
   * and its arguments, which runs beside the shell. When the signal is aborted the command
   * is cancelled, unless it is detached; over stdio it goes on in any case.
   */
  async run(command: string | readonly string[], options: RunOptions = {}): Promise<ExecResult> {
    const { signal, ...rest } = options;
    const result = await this.trl.request({ method: "exec.run", params: this.#once(command, rest) }, signal);
    return execResult(fromWire(result as wire.ExecResult));
  }

  /** Runs a command and yields its output as it arrives, then its exit. The first `next` starts the command. */
  stream(command: string | readonly string[], options: ExecStreamOptions = {}): ExecStream {
    const { signal, reconnect, ...rest } = options;
    const request = { method: "exec.stream", params: this.#once(command, rest) };
    return new ExecStream(this.trl.link, request, { signal, reconnect });
  }

  /** Starts a command and returns at once. */
  async start(command: string | readonly string[], options: StartOptions = {}): Promise<Exec> {
    const { signal, ...rest } = options;
    const info = (await this.trl.request({ method: "exec.start", params: this.#once(command, rest) }, signal)) as wire.ExecInfo;
    return new Exec(this.trl, info.exec_id);
  }

  /** Cancels the running command. */
  async cancel(signalName?: string, options: Abortable = {}): Promise<ExecInfo> {
    return this.trl.call("exec.cancel", { sessionId: this.id, ...(signalName && { signal: signalName }) }, options);
  }

  /** Returns the commands that the daemon still keeps, oldest first. */
  async execs(options: Abortable = {}): Promise<ExecInfo[]> {
    return (await this.trl.call("exec.list", { sessionId: this.id }, options)).execs;
  }

  /** The parameters of a command, with a run_id: the request can be repeated, and the command runs once. */
  #once(command: string | readonly string[], options: StartOptions): WireRequest["params"] {
    return { run_id: newWriteID(), ...this.#params(command, options) };
  }

  /** The parameters on the wire. For the daemon, the text "open" still means stdin_open, so that text is sent as base64. */
  #params(command: string | readonly string[], { stdin, stdinOpen, ...options }: StartOptions): WireRequest["params"] {
    const input = stdinOpen ? { stdin_open: true } : stdin === undefined ? {} : dataFields("stdin", stdin, (text) => text !== "open");
    if (stdinOpen && stdin !== undefined) throw new TypeError("stdin: cannot be combined with stdinOpen");
    if (typeof command !== "string" && !isWords(command)) throw new TypeError("command: must be a string or a list of strings");
    const what = typeof command === "string" ? { command } : { argv: command };
    return { session_id: this.id, ...what, ...(toWire(options) as object), ...input };
  }
}

function isWords(value: unknown): boolean {
  return Array.isArray(value) && value.every((word) => typeof word === "string");
}

/** One command: running, or ended and still kept. */
export class Exec {
  readonly id: string;
  #trl: Trl;

  /** Called by Trl and Session. */
  constructor(trl: Trl, id: string) {
    this.#trl = trl;
    this.id = id;
  }

  /** Waits until the command exits or meets a condition of the options; null if timeoutS passes first. */
  async wait(options: WaitOptions = {}): Promise<WaitEvent | null> {
    const { signal, ...rest } = options;
    const result = await this.#trl.call("exec.wait", { execIds: [this.id], ...rest }, { signal });
    return result.happened[0] ?? null;
  }

  /** Yields the output from its beginning, or from the position in the options, and then the exit. */
  stream(options: AttachOptions = {}): ExecStream {
    const { signal, reconnect, ...rest } = options;
    const params = { exec_id: this.id, ...(toWire(rest) as object) };
    return new ExecStream(this.#trl.link, { method: "exec.stream", params }, { signal, reconnect });
  }

  /** Reads a part of the kept output. */
  async output(options: OutputOptions = {}): Promise<ExecOutputResult> {
    const { signal, ...rest } = options;
    const result = await this.#trl.call("exec.output", { execId: this.id, ...rest }, { signal });
    return withBytes(result, { bytes: ["data", "dataBase64"] });
  }

  /** Writes to the stdin of a command that was started with `stdinOpen`. The data is written once, even if it is sent several times. */
  async input(data: TextOrBytes, options: InputOptions = {}): Promise<ExecInputResult> {
    return this.#write(data, options);
  }

  /** Ends the stdin of a command that was started with `stdinOpen`. */
  async closeInput(options: Abortable = {}): Promise<ExecInputResult> {
    return this.#write("", { ...options, close: true });
  }

  async #write(data: TextOrBytes, { signal, close, writeId = newWriteID() }: InputOptions): Promise<ExecInputResult> {
    const params = { exec_id: this.id, write_id: writeId, ...(close && { close }), ...(data.length > 0 && dataFields("data", data)) };
    return fromWire((await this.#trl.request({ method: "exec.input", params }, signal)) as wire.ExecInputResult);
  }

  /** Changes the size of the terminal of a command that was started with `pty`. */
  async resize(cols: number, rows: number, options: Abortable = {}): Promise<ExecInputResult> {
    return this.#trl.call("exec.input", { execId: this.id, pty: { cols, rows } }, options);
  }

  /** Sends a signal to the command: to its leader, or to the tree of all its processes. */
  async signal(name: string, to: "leader" | "tree" = "leader", options: Abortable = {}): Promise<Camel<wire.ExecSignalResult>> {
    return this.#trl.call("exec.signal", { execId: this.id, signal: name, to }, options);
  }

  /** Stops the command and everything it started, with SIGTERM first or the signal of that name. */
  async cancel(signalName?: string, options: Abortable = {}): Promise<ExecInfo> {
    return this.#trl.call("exec.cancel", { execId: this.id, ...(signalName && { signal: signalName }) }, options);
  }

  /** Returns the state of the command, and its outcome if it has ended. */
  async info(options: Abortable = {}): Promise<ExecInfo> {
    return this.#trl.call("exec.info", { execId: this.id }, options);
  }
}

/** Adds the computed properties to a result. */
function execResult(result: Camel<wire.ExecResult>): ExecResult {
  const full = withBytes(result, { stdoutData: ["stdout", "stdoutBase64"], stderrData: ["stderr", "stderrBase64"] }) as ExecResult;
  const check = () => {
    if (full.ok) return full;
    throw new CommandFailedError(full);
  };
  return Object.defineProperties(full, { ok: { value: full.exitCode === 0 }, check: { value: check } });
}

/** Adds properties with the exact bytes of pairs of text and base64. Each is computed when it is read. */
function withBytes<T extends object, P extends string>(result: T, pairs: Record<P, [text: keyof T, base64: keyof T]>): T & Record<P, Uint8Array> {
  for (const [name, [text, base64]] of Object.entries(pairs) as [string, [keyof T, keyof T]][]) {
    const get = () => exactBytes(result[text] as string, result[base64] as string | undefined);
    Object.defineProperty(result, name, { get, enumerable: false });
  }
  return result as T & Record<P, Uint8Array>;
}
