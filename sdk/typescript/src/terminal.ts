import { dataFields, type TextOrBytes } from "./bytes.js";
import type { Trl } from "./client.js";
import { TrlError } from "./errors.js";
import { newWriteID } from "./ids.js";
import { fromWire, toWire, type Camel } from "./names.js";
import type { SessionInfo, SessionInputResult, SessionResizeResult, SessionScreenResult, SessionWaitResult } from "./results.js";
import { AnySession, Exec } from "./session.js";
import { Chunk, PushStream, type Exit, type OutputChunk, type StreamOptions } from "./stream.js";
import type { Abortable, Push, WireRequest } from "./transport.js";
import { Typist } from "./typist.js";
import type { SessionAttachParams, SessionScreenParams, SessionWaitParams, StreamName, StreamStart, TerminalModes, Viewer } from "./types.js";

/** The conditions to wait for. The first one that is met ends the wait; the end of the program always does. */
export interface SessionWaitOptions extends Omit<Camel<SessionWaitParams>, "sessionId">, Abortable {}

/** The options of typing. */
export interface TypeOptions extends Abortable {
  /** Keys to press after the text, such as enter, up, f5, ctrl-c, alt-x or one character. */
  keys?: string[];
  /** The daemon does not write input with the same id twice. Absent: a new id. */
  writeId?: string;
}

/** Which part of a screen to return, and in which format. */
export interface ScreenOptions extends Omit<Camel<SessionScreenParams>, "sessionId">, Abortable {}

/** The options of a viewer. */
export interface ViewerOptions extends StreamOptions, Pick<Camel<SessionAttachParams>, "fromOffset" | "scrollback" | "readOnly" | "size" | "takeSize"> {}

/** Where to begin to read. */
export interface BytesOptions extends StreamOptions {
  fromOffset?: number;
}

/** A session that is one program. It ends with the program; its output stays readable. */
abstract class ProgramSession extends AnySession {
  /** The program as a command: its output by offset, its exit, its signals. */
  readonly exec: Exec;

  /** Called by Trl. */
  constructor(trl: Trl, info: SessionInfo) {
    super(trl, info);
    this.exec = new Exec(trl, info.execId ?? "");
  }

  /** Waits for a condition of the options, or the end of the program; null if timeoutS passes first. */
  async wait(options: SessionWaitOptions): Promise<SessionWaitResult | null> {
    const { signal, ...rest } = options;
    const result = await this.trl.call("session.wait", { sessionId: this.id, ...rest }, { signal });
    return result.timedOut ? null : result;
  }

  /** @internal */
  protected async write(params: Record<string, unknown>, { signal, writeId = newWriteID() }: TypeOptions): Promise<SessionInputResult> {
    const request = { method: "session.input", params: { session_id: this.id, write_id: writeId, ...params } };
    return fromWire(await this.trl.request(request, signal)) as SessionInputResult;
  }
}

/** A program on a pseudo-terminal, with a screen. */
export class Terminal extends ProgramSession {
  /** Types text, then presses the keys. The key enter ends a line. The text is typed once, even if it is sent several times. */
  async input(data: TextOrBytes, options: TypeOptions = {}): Promise<SessionInputResult> {
    const fields = typeof data === "string" ? { text: data } : dataFields("data", data);
    return this.write({ ...(data.length > 0 && fields), ...(options.keys && { keys: options.keys }) }, options);
  }

  /** Presses keys, one after the other: enter, tab, esc, up, f5, ctrl-c, alt-x, shift-tab, or one character. */
  async keys(...keys: string[]): Promise<SessionInputResult> {
    return this.write({ keys }, {});
  }

  /** Pastes text, as a bracketed paste if the program asked for that. Then presses the keys. */
  async paste(text: string, options: TypeOptions = {}): Promise<SessionInputResult> {
    return this.write({ paste: text, ...(options.keys && { keys: options.keys }) }, options);
  }

  /** Returns a typist, which types everything once and in order, without a wait for each call. */
  typist(): Typist {
    return new Typist((input) => this.trl.request({ method: "session.input", params: { session_id: this.id, ...input } }));
  }

  /** Returns the screen of the terminal; its last screen if it has ended. */
  screen(options?: ScreenOptions & { format?: "text" | "ansi"; sinceVersion?: undefined }): Promise<SessionScreenResult & { text: string }>;
  screen(options: ScreenOptions): Promise<SessionScreenResult>;
  async screen(options: ScreenOptions = {}): Promise<SessionScreenResult> {
    const { signal, ...rest } = options;
    const screen = await this.trl.call("session.screen", { sessionId: this.id, ...rest }, { signal });
    // The wire leaves an empty text out.
    return rest.format === "cells" || rest.sinceVersion !== undefined ? screen : { ...screen, text: screen.text ?? "" };
  }

  /** Changes the size of the terminal. While a viewer owns the size this is an error, unless `force` is set. */
  async resize(cols: number, rows: number, options: Abortable & { force?: boolean } = {}): Promise<SessionResizeResult> {
    const { signal, ...rest } = options;
    return this.trl.call("session.resize", { sessionId: this.id, cols, rows, ...rest }, { signal });
  }

  /** Yields a snapshot of the screen, all further output, and the exit. */
  attach(options: ViewerOptions = {}): TerminalStream {
    const { signal, reconnect, ...rest } = options;
    return new TerminalStream(this.trl, { session_id: this.id, ...(toWire(rest) as object) }, { signal, reconnect });
  }

  /** Yields the recording, an asciicast, piece by piece up to its current end. */
  async *recording(options: Abortable & { offset?: number } = {}): AsyncGenerator<string, void> {
    for (let offset = options.offset ?? 0; ; ) {
      const piece = await this.trl.call("session.recording", { sessionId: this.id, offset }, { signal: options.signal });
      if (piece.data !== "") yield piece.data;
      offset = piece.offset + new TextEncoder().encode(piece.data).length;
      if (piece.data === "" || offset >= piece.total) return;
    }
  }
}

/** A program on three pipes. */
export class Program extends ProgramSession {
  /** Writes to the program's stdin, and ends it with `close`. The data is written once, even if it is sent several times. */
  async input(data: TextOrBytes, options: Omit<TypeOptions, "keys"> & { close?: boolean } = {}): Promise<SessionInputResult> {
    const fields = typeof data === "string" ? { text: data } : dataFields("data", data);
    return this.write({ ...(data.length > 0 && fields), ...(options.close && { close: true }) }, options);
  }

  /** Ends the program's stdin. */
  async closeInput(options: Abortable = {}): Promise<SessionInputResult> {
    return this.write({ close: true }, options);
  }

  /** Yields the bytes of stdout from an offset on, until the program has ended. */
  stdout(options: BytesOptions = {}): AsyncGenerator<OutputChunk, void> {
    return this.#bytes("stdout", options);
  }

  /** Yields the bytes of stderr from an offset on, until the program has ended. */
  stderr(options: BytesOptions = {}): AsyncGenerator<OutputChunk, void> {
    return this.#bytes("stderr", options);
  }

  /** Throws if bytes are no longer kept: a protocol cannot continue after a gap. */
  async *#bytes(stream: StreamName, options: BytesOptions): AsyncGenerator<OutputChunk, void> {
    for await (const item of this.exec.stream({ stream, ...options })) {
      if (item.type === "gap") {
        const { from, to } = item;
        throw new TrlError("INVALID_PARAMS", `exec "${this.exec.id}": the bytes ${from} to ${to - 1} of ${stream} are no longer kept`, { gap: { from, to } });
      }
      if (item.type === stream) yield item as OutputChunk;
    }
  }
}

/** A whole screen: its bytes draw the screen on a new terminal of that size. The output continues at `offset`. */
export class Snapshot extends Chunk<"snapshot"> {
  readonly cols: number;
  readonly rows: number;
  /** The viewer that owns the size. */
  readonly ownerId: string | undefined;
  /** The version of the screen, for `sinceVersion`. */
  readonly version: number;

  constructor(push: Push) {
    super(push);
    this.cols = push.cols ?? 0;
    this.rows = push.rows ?? 0;
    this.ownerId = push.owner_id;
    this.version = push.version ?? 0;
  }
}

/** A piece of the program's output. It never ends inside a character. */
export class TerminalOutput extends Chunk<"output"> {}

/** The terminal has another size from `offset` on, or another owner. */
export interface Resize {
  type: "resize";
  seq: number;
  offset: number;
  cols: number;
  rows: number;
  ownerId?: string;
}

/** The viewers of the terminal, if requested with `viewers`: after the snapshot, and whenever a viewer attaches, detaches or changes. */
export interface Viewers {
  type: "viewers";
  seq: number;
  viewers: Camel<Viewer>[];
}

/** The modes of the terminal, if requested with `modes`: after the snapshot, and whenever a mode changes. */
export interface Modes {
  type: "modes";
  seq: number;
  modes: Camel<TerminalModes>;
}

/** The items of a viewer, distinguished by `type`. */
export type TerminalItem = Snapshot | TerminalOutput | Resize | Viewers | Modes | Exit;

/**
 * The stream of a viewer: a snapshot, the output that follows, changes of size, the exit.
 * After a lost connection it continues with exactly the missing bytes, or with a new
 * snapshot if they are too many.
 */
export class TerminalStream extends PushStream<TerminalItem> {
  #trl: Trl;
  #sessionId: string;
  #last: Snapshot | TerminalOutput | Resize | undefined;
  #size: { cols: number; rows: number } | undefined; // the last size of this viewer
  #owned = false; // the size of the terminal followed this viewer
  #viewerId = "";

  /** Called by Terminal. */
  constructor(trl: Trl, params: { session_id: string }, options: StreamOptions) {
    super(trl.link, { method: "session.attach", params }, options);
    this.#trl = trl;
    this.#sessionId = params.session_id;
  }

  /** Returns the id of this viewer. It changes whenever the stream reconnects. */
  async viewerId(): Promise<string> {
    await this.opened();
    return this.#viewerId;
  }

  /** Sets the size of this viewer. The terminal follows it if this viewer owns the size. */
  async resize(cols: number, rows: number, options: Abortable = {}): Promise<SessionResizeResult> {
    this.#size = { cols, rows };
    const viewerId = await this.viewerId();
    return this.#trl.call("session.resize", { sessionId: this.#sessionId, cols, rows, viewerId }, options);
  }

  protected override started(start: StreamStart): void {
    this.#viewerId = start.viewer_id ?? this.#viewerId;
  }

  protected override repeatable(): boolean {
    return true;
  }

  protected override resume(_: StreamStart, { method, params }: WireRequest): WireRequest {
    const from_offset = this.#offset();
    if (from_offset === undefined) return { method, params };
    const { take_size: _take, ...rest } = params;
    // A viewer that owned the size keeps it; the daemon may still know its lost connection.
    return { method, params: { ...rest, from_offset, ...(this.#size && { size: this.#size }), ...(this.#owned && { take_size: true }) } };
  }

  protected override whereabouts(): Record<string, unknown> {
    return { session_id: this.#sessionId, from_offset: this.#offset() };
  }

  /** The offset where the output continues. */
  #offset(): number | undefined {
    return this.#last?.type === "output" ? this.#last.offset + this.#last.bytes.length : this.#last?.offset;
  }

  protected override accept(push: Push): TerminalItem | undefined {
    switch (push.type) {
      case "snapshot":
        this.#owned = push.owner_id === this.#viewerId;
        return (this.#last = new Snapshot(push));
      case "output":
        return (this.#last = new TerminalOutput(push));
      case "resize": {
        this.#owned = push.owner_id === this.#viewerId;
        const { seq, offset = 0, cols = 0, rows = 0, owner_id } = push;
        return (this.#last = { type: "resize", seq, offset, cols, rows, ...(owner_id && { ownerId: owner_id }) });
      }
      case "viewers":
        return { type: "viewers", seq: push.seq, viewers: fromWire(push.viewers ?? []) };
      case "modes":
        return push.modes && { type: "modes", seq: push.seq, modes: fromWire(push.modes) };
      case "exit": {
        const { streamId: _, ...exit } = fromWire(push);
        return exit as unknown as Exit;
      }
      default:
        return undefined; // a push of a newer daemon
    }
  }
}
