import { Dialogue, type DialogueOptions } from "./dialogue.js";
import { ConnectionLostError, TrlError } from "./errors.js";
import { fromWire, toWire, type Camel } from "./names.js";
import { isNotCreated, isOver, isUnavailable, lasting, mayHaveBeenDone, Patience, stopped, type Link, type ReconnectOptions } from "./reconnect.js";
import type { CallMethod, CallParams, CallResult, ExecResult } from "./results.js";
import { Exec, Session, type RunOptions } from "./session.js";
import { EventStream, type StreamOptions } from "./stream.js";
import { Program, Terminal } from "./terminal.js";
import type { Abortable, TraceOptions, Transport, WireRequest } from "./transport.js";
import { readMethods, type ErrorCode, type EventSubscribeParams, type Method, type SessionCreateParams, type SessionDestroyResult, type SessionInfo } from "./types.js";

type CreateParams = Camel<SessionCreateParams>;

/** The options of a new session. */
export interface SessionOptions
  extends Omit<CreateParams, "kind" | "command" | "cols" | "rows" | "term" | "scrollback" | "record" | "recordInput">, Abortable {}

/** The options of a new terminal. Without a command it runs the shell. */
export interface TerminalOptions extends Omit<CreateParams, "kind" | "timeoutS">, Abortable {}

/** The options of the session of a program. */
export interface ProgramOptions extends Pick<CreateParams, "workingDir" | "env" | "name" | "tags" | "ephemeral" | "lingerS" | "lifetimeS" | "idleTimeoutS">, Abortable {}

/** The options of a command that runs in a session of its own. */
export interface OneRunOptions
  extends Pick<RunOptions, "timeoutS" | "stdin" | "maxOutputBytes">, Pick<SessionOptions, "shell" | "workingDir" | "env">, Abortable {}

/** Which events to push. */
export interface EventOptions extends Camel<EventSubscribeParams>, StreamOptions {}

/** What a client does by itself: own an ephemeral session again, or end what a block created. */
type Upkeep = "own" | "leave";

/** A client of one daemon. Its methods may be called concurrently. */
export class Trl {
  #transport: Transport;
  #reconnect: ReconnectOptions["reconnect"];
  #traceparent: TraceOptions["traceparent"];
  #closed = false;
  #owned = new Set<string>(); // the ephemeral sessions of this client

  /** Called by `connect`. The client owns the transport. */
  constructor(transport: Transport, options: ReconnectOptions & TraceOptions = {}) {
    this.#transport = transport;
    this.#reconnect = options.reconnect;
    this.#traceparent = options.traceparent;
    transport.onLost = () => this.#ownAgain();
  }

  /**
   * The link over which the streams of this client are read.
   * @internal
   */
  get link(): Link {
    const client = this;
    return {
      transport: this.#transport,
      reconnect: this.#reconnect,
      traced: (request) => this.#traced(request),
      get closed() {
        return client.#closed;
      },
    };
  }

  /** Starts a session: a place to work with a living shell. */
  async session(options: SessionOptions = {}): Promise<Session> {
    const { signal, ...params } = options;
    return new Session(this, await this.call("session.create", params, { signal }));
  }

  /** Runs one command in a session of its own. The session ends with the command, and so does everything that the command started. */
  async run(command: string, options: OneRunOptions = {}): Promise<ExecResult> {
    const { shell, workingDir, env, signal, ...rest } = options;
    const place = { ...(shell !== undefined && { shell }), ...(workingDir !== undefined && { workingDir }), ...(env !== undefined && { env }) };
    const session = await this.session({ ...place, ...(this.#transport.ties && { ephemeral: true }), signal });
    try {
      return await session.run(command, { ...rest, signal });
    } finally {
      await session[Symbol.asyncDispose]();
    }
  }

  /** Starts a program on a pseudo-terminal: an editor, a debugger, a shell, or any program that needs a screen and keys. */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    const { signal, ...params } = options;
    return new Terminal(this, await this.call("session.create", { kind: "terminal", ...params }, { signal }));
  }

  /** Starts a program on three pipes, for protocols such as JSON lines. */
  async program(command: string[], options: ProgramOptions = {}): Promise<Program> {
    const { signal, ...params } = options;
    return new Program(this, await this.call("session.create", { kind: "program", command, ...params }, { signal }));
  }

  /** Returns a session that exists, by its id or name. */
  async findSession(idOrName: string, options: Abortable = {}): Promise<Session> {
    return new Session(this, await this.call("session.info", { sessionId: idOrName }, options));
  }

  /** Returns a terminal that exists, by its id or name. */
  async findTerminal(idOrName: string, options: Abortable = {}): Promise<Terminal> {
    return new Terminal(this, await this.call("session.info", { sessionId: idOrName }, options));
  }

  /** Returns the session of a program, by its id or name. */
  async findProgram(idOrName: string, options: Abortable = {}): Promise<Program> {
    return new Program(this, await this.call("session.info", { sessionId: idOrName }, options));
  }

  /** Starts a conversation with a coding agent: claude, codex, or one that speaks ACP. */
  async dialogue(options: DialogueOptions): Promise<Dialogue> {
    const { signal, ...params } = options;
    return new Dialogue(this, await this.call("dialogue.create", params, { signal }));
  }

  /** Returns a dialogue that exists, by its id or name. */
  async findDialogue(idOrName: string, options: Abortable = {}): Promise<Dialogue> {
    return new Dialogue(this, await this.call("dialogue.info", { dialogueId: idOrName }, options));
  }

  /** Returns a command that this or another client has started, by its id. It does not ask the daemon. */
  exec(execId: string): Exec {
    return new Exec(this, execId);
  }

  /** Yields the events of sessions and commands: from now on, or after the event with the number `afterSeq`. */
  events(options: EventOptions = {}): EventStream {
    const { signal, reconnect, ...params } = options;
    const request = { method: "event.subscribe", params: toWire(params) as WireRequest["params"] };
    return new EventStream(this.link, request, { signal, reconnect });
  }

  /**
   * Calls any method that does not stream, by its name. After a lost connection the
   * call is sent again if that cannot do anything twice; a command never runs twice.
   */
  async call<M extends CallMethod>(
    method: M,
    ...[params, options]: {} extends CallParams<M> ? [params?: CallParams<M>, options?: Abortable] : [params: CallParams<M>, options?: Abortable]
  ): Promise<CallResult<M>> {
    const wireParams = toWire(params ?? {}) as WireRequest["params"];
    const answer = await this.request({ method, params: wireParams }, options?.signal);
    return fromWire(answer, method === "system.info" ? "limits" : undefined) as CallResult<M>;
  }

  /**
   * Calls a method with the names of the wire. Only a call that is new, and not for upkeep, starts a daemon
   * if a user stopped the last one.
   * @internal
   */
  async request(untraced: WireRequest, signal?: AbortSignal, upkeep?: Upkeep): Promise<unknown> {
    const request = this.#traced(untraced);
    const begin = performance.now();
    const patience = new Patience(this.link, {});
    for (let again = upkeep !== undefined; ; again ||= lasting.has(request.method)) {
      if (this.#closed) throw new ConnectionLostError("the client is closed", false);
      if (upkeep === "own" && !this.#owned.has(request.params["session_id"] as string)) throw new ConnectionLostError("the session was left", false);
      signal?.throwIfAborted();
      const attempt = performance.now();
      try {
        return this.#note(request, await this.#transport.call(stillToWait(request, begin), signal, isTied(request), again));
      } catch (error) {
        if (!isUnavailable(error)) throw error;
        if (mayHaveBeenDone(error) && !isRepeatable(request) && !isNotCreated(request, error)) throw error;
        if (isOver(request, error) || (upkeep === "leave" && error.reason === stopped)) throw error;
        await patience.pause(error, signal, performance.now() - attempt, upkeep !== "own");
      }
    }
  }

  /**
   * Ends what a block created; `missing` is the code if it has ended. If a user stopped the daemon, it has
   * ended the sessions, or keeps them on purpose: none is started for this.
   * @internal
   */
  async leave(request: WireRequest, missing: ErrorCode): Promise<void> {
    try {
      await this.request(request, undefined, "leave");
    } catch (error) {
      if (!(error instanceof TrlError) || (error.code !== missing && error.reason !== stopped)) throw error;
      this.#owned.delete(request.params["session_id"] as string); // it is not owned again
    }
  }

  /** The request, with the position of its caller in a trace. */
  #traced(request: WireRequest): WireRequest {
    const traceparent = typeof this.#traceparent === "function" ? this.#traceparent() : this.#traceparent;
    return traceparent ? { ...request, traceparent } : request;
  }

  /** Remembers which ephemeral sessions this client owns. */
  #note({ method, params }: WireRequest, answer: unknown): unknown {
    if (method === "session.create" && params["ephemeral"] === true) this.#owned.add((answer as SessionInfo).session_id);
    if (method === "session.destroy") this.#owned.delete((answer as SessionDestroyResult).session_id);
    return answer;
  }

  /** Claims the ephemeral sessions again after their connection was lost, before the daemon ends them. */
  #ownAgain(): void {
    for (const session_id of this.#owned) {
      // An error means that the session has ended, or that the daemon cannot be reached again.
      this.request({ method: "session.own", params: { session_id } }, undefined, "own").catch(() => this.#owned.delete(session_id));
    }
  }

  /** Ends the connection. Sessions go on, except ephemeral ones and those of a daemon on stdio. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Whether a request that may have taken effect may be sent again. */
function isRepeatable({ method, params }: WireRequest): boolean {
  switch (method) {
    case "exec.run":
    case "exec.start":
      return params["run_id"] !== undefined;
    case "exec.input":
      return params["write_id"] !== undefined;
    case "session.own":
      return true;
    case "exec.cancel":
      return params["exec_id"] !== undefined;
    case "session.destroy": // a name may belong to another session by then
    case "session.resize":
      return String(params["session_id"]).startsWith("s-");
    case "session.input":
      return String(params["session_id"]).startsWith("s-") && params["write_id"] !== undefined;
    case "dialogue.send":
      return String(params["dialogue_id"]).startsWith("d-") && params["message_id"] !== undefined;
    case "dialogue.set":
    case "dialogue.retry":
    case "dialogue.terminate": // a forgotten dialogue cannot be found a second time
      return String(params["dialogue_id"]).startsWith("d-") && params["forget"] !== true;
  }
  return readMethods.includes(method as Method);
}

/** Whether the command must end when its caller gives up waiting. */
function isTied({ method, params }: WireRequest): boolean {
  return method === "exec.run" && params["detach"] !== true;
}

/** The request, with the time that has passed subtracted from its timeout. */
function stillToWait(request: WireRequest, begin: number): WireRequest {
  if (!request.method.endsWith(".wait")) return request;
  const passedMs = performance.now() - begin;
  const { timeout_s: seconds, timeout_ms: ms } = request.params;
  if (typeof seconds === "number") {
    return { ...request, params: { ...request.params, timeout_s: Math.max(0, seconds - passedMs / 1000) } };
  }
  if (typeof ms === "number") {
    return { ...request, params: { ...request.params, timeout_ms: Math.max(0, Math.round(ms - passedMs)) } };
  }
  return request;
}

/** Makes a client once the daemon has answered over the transport. */
export async function connectOver(transport: Transport, options: ReconnectOptions & TraceOptions & Abortable): Promise<Trl> {
  try {
    await transport.call({ method: "system.ping", params: {} }, options.signal, false);
  } catch (error) {
    await transport.close();
    throw error;
  }
  return new Trl(transport, options);
}

