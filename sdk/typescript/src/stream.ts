import { decodeText, exactBytes } from "./bytes.js";
import { ConnectionLostError, TrlError } from "./errors.js";
import { fromWire } from "./names.js";
import { isOver, isUnavailable, mayHaveBeenDone, Patience, type Link, type ReconnectOptions } from "./reconnect.js";
import type { ExecOutcome, LifecycleEvent, MissedEvent } from "./results.js";
import type { Abortable, Push, Pushes, WireRequest } from "./transport.js";
import { eventTypes, type StreamEvent, type StreamName, type StreamStart } from "./types.js";

/** Options of everything that streams. */
export interface StreamOptions extends Abortable, ReconnectOptions {}

/** Bytes of a stream. */
export abstract class Chunk<T extends string> {
  readonly type: T;
  /** Orders the items of a stream. */
  readonly seq: number;
  /** Where the piece begins in its stream, in bytes. */
  readonly offset: number;
  /** The text, with replacement characters where the bytes are not UTF-8. */
  declare readonly data: string;
  readonly #raw: Uint8Array | undefined;
  readonly #base64: string | undefined;

  constructor(push: Push) {
    this.type = push.type as string as T;
    this.seq = push.seq;
    this.offset = push.offset ?? 0;
    this.#raw = push.raw;
    this.#base64 = push.data_base64;
    const { raw } = push;
    // The bytes become text only when a reader asks for it.
    if (raw) Object.defineProperty(this, "data", { configurable: true, enumerable: true, get: () => this.#text(decodeText(raw)) });
    else this.#text(push.data ?? "");
  }

  /** The exact bytes. */
  get bytes(): Uint8Array {
    return this.#raw ?? exactBytes(this.data, this.#base64);
  }

  /** How console.log of Node shows it. */
  [Symbol.for("nodejs.util.inspect.custom")](): object {
    return { ...this };
  }

  #text(value: string): string {
    Object.defineProperty(this, "data", { configurable: true, enumerable: true, writable: true, value });
    return value;
  }
}

/** A piece of output of a command; `afterSeq` takes its `seq`. */
export class OutputChunk extends Chunk<StreamName> {}

/** Bytes [from, to) of a stream that are no longer kept. */
export interface Gap {
  type: "gap";
  seq: number;
  stream: StreamName;
  from: number;
  to: number;
}

/** The end of a command; the last item of its stream. */
export interface Exit extends ExecOutcome {
  type: "exit";
  seq: number;
}

/** The items of the stream of a command, distinguished by `type`. */
export type StreamItem = OutputChunk | Gap | Exit;

/** The items of a subscription. */
export type TrlEvent = LifecycleEvent | MissedEvent;

/**
 * A stream that outlives its connection. After a loss it is opened again where it stopped,
 * and items that come twice are dropped. The first `next` opens the stream. It is read no
 * faster than its one consumer takes items; `break`, `close` or the signal closes it.
 */
export abstract class PushStream<T> implements AsyncIterable<T> {
  #link: Link;
  #request: WireRequest;
  #signal: AbortSignal | undefined;
  #patience: Patience;
  #start: StreamStart | undefined;
  #opening: Promise<Pushes> | undefined;
  #over = false;
  /** The number of the last push, once there is one. */
  protected lastSeq: number | undefined;

  constructor(link: Link, request: WireRequest, options: StreamOptions) {
    this.#link = link;
    this.#request = link.traced(request);
    this.#signal = options.signal;
    this.#patience = new Patience(link, options);
  }

  /** Returns the request that continues the stream after a loss; `start` is the first answer, `request` the last request. */
  protected abstract resume(start: StreamStart, request: WireRequest): WireRequest;
  /** Is called with the answer each time the stream is opened. */
  protected started(_: StreamStart): void {}
  /** Whether a request without an answer may be sent again. */
  protected abstract repeatable(request: WireRequest): boolean;
  /** The parameters with which another reader continues from here. */
  protected whereabouts(start: StreamStart | undefined): Record<string, unknown> {
    return { exec_id: start?.exec_id, after_seq: this.lastSeq };
  }
  /** Turns a push into an item; undefined if the consumer already has it, or its type is unknown. */
  protected abstract accept(push: Push): T | undefined;

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    return this;
  }

  /** Opens the stream, if it is not open yet. */
  protected async opened(): Promise<StreamStart> {
    while (!this.#start) await this.#open();
    return this.#start;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    while (!this.#over) {
      const push = await this.#pull();
      if (!push) continue;
      if (push.type === "error" || push.type === "exit" || push.type === "end") this.#end();
      if (push.type === "error") throw TrlError.from(push.error);
      const item = this.accept(push);
      this.lastSeq = Math.max(push.seq, this.lastSeq ?? 0);
      if (item !== undefined) return { done: false, value: item };
    }
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorReturnResult<undefined>> {
    this.#end();
    return { done: true, value: undefined };
  }

  /** Closes the stream. The command goes on, unless it was started with `detach: false`. */
  close(): void {
    this.#end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end();
  }

  /** The next push; undefined if the stream must be opened again first. */
  async #pull(): Promise<Push | undefined> {
    const pushes = await this.#open();
    if (!pushes || this.#over) return undefined;
    try {
      const push = await pushes.next();
      if (push.type === "error" && isUnavailable(TrlError.from(push.error))) throw TrlError.from(push.error);
      this.#patience.renew();
      return push;
    } catch (error) {
      if (this.#over) return undefined;
      await this.#lost(error, pushes);
      return undefined;
    }
  }

  /** Opens the stream where it stopped. Returns undefined if the caller must try again. */
  async #open(): Promise<Pushes | undefined> {
    if (this.#over) throw new TrlError("CONFLICT", "stream: is closed");
    if (!this.#opening) {
      if (this.#start) this.#request = this.resume(this.#start, this.#request);
      this.#opening = this.#link.transport.open(this.#request, this.#signal, this.#start !== undefined);
    }
    try {
      const pushes = await this.#opening;
      this.#start ??= pushes.start;
      this.started(pushes.start);
      if (this.#over) pushes.close();
      return pushes;
    } catch (error) {
      if (this.#over) return undefined;
      if (isUnavailable(error) && mayHaveBeenDone(error) && !this.repeatable(this.#request)) {
        this.#end();
        throw error; // a command may have been started
      }
      await this.#lost(error, undefined);
      return undefined;
    }
  }

  /** Pauses before the next attempt; throws the error if there must be none. */
  async #lost(error: unknown, pushes: Pushes | undefined): Promise<void> {
    pushes?.close();
    this.#opening = undefined;
    try {
      this.#signal?.throwIfAborted();
      if (!isUnavailable(error) || isOver(this.#request, error)) throw error;
      await this.#patience.pause(error, this.#signal);
    } catch (final) {
      this.#end();
      if (!(final instanceof ConnectionLostError)) throw final;
      throw new ConnectionLostError(final.message, final.sent, final, this.whereabouts(this.#start));
    }
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    void this.#opening?.then((pushes) => pushes.close()).catch(() => {});
  }
}

/** The output of one command as it arrives, and then its exit. */
export class ExecStream extends PushStream<StreamItem> {
  #last: Partial<Record<StreamName, OutputChunk | Gap>> = {};
  #have: Partial<Record<StreamName, number>> = {}; // the offset after the last byte before the last resume

  /** Starts the command, unless it has been started, and returns its id. */
  async execId(): Promise<string> {
    return (await this.opened()).exec_id ?? "";
  }

  protected override repeatable(request: WireRequest): boolean {
    return request.params["exec_id"] !== undefined || request.params["run_id"] !== undefined;
  }

  protected override resume(start: StreamStart, { method, params }: WireRequest): WireRequest {
    for (const name of ["stdout", "stderr"] as const) this.#have[name] = this.#endOf(name);
    const { exec_id, stream, from_offset, after_seq } = { ...params, exec_id: start.exec_id } as Record<string, unknown>;
    const from = this.lastSeq === undefined ? { from_offset, after_seq } : { after_seq: this.lastSeq };
    const tied = params["detach"] === false ? { detach: false } : {};
    return { method, params: { exec_id, stream, ...tied, ...from } };
  }

  #endOf(name: StreamName): number {
    const last = this.#last[name];
    if (!last) return 0;
    return last.type === "gap" ? last.to : last.offset + last.bytes.length;
  }

  protected override accept(push: Push): StreamItem | undefined {
    switch (push.type) {
      case "stdout":
      case "stderr":
        return this.#chunk(push);
      case "gap":
        return this.#gap(push);
      case "exit": {
        const { streamId: _, ...exit } = fromWire(push);
        return exit as unknown as Exit;
      }
      default:
        return undefined; // a push of a newer daemon
    }
  }

  #chunk(push: Push): OutputChunk | undefined {
    let chunk = new OutputChunk(push);
    const repeated = (this.#have[chunk.type] ?? 0) - chunk.offset;
    if (repeated > 0) {
      const rest = chunk.bytes.subarray(repeated);
      if (rest.length === 0) return undefined;
      chunk = new OutputChunk({ ...push, offset: chunk.offset + repeated, raw: rest });
    }
    return (this.#last[chunk.type] = chunk);
  }

  #gap({ seq, stream = "stdout", from = 0, to = 0 }: StreamEvent): Gap | undefined {
    const gap: Gap = { type: "gap", seq, stream, from: Math.max(from, this.#have[stream] ?? 0), to };
    if (gap.from >= gap.to) return undefined;
    return (this.#last[stream] = gap);
  }
}

/** The events of sessions and commands, as they happen. The stream does not end by itself. */
export class EventStream extends PushStream<TrlEvent> {
  protected override repeatable(): boolean {
    return true;
  }

  protected override resume(start: StreamStart, { method, params }: WireRequest): WireRequest {
    return { method, params: { ...params, after_seq: this.lastSeq ?? params["after_seq"] ?? start.seq ?? 0 } };
  }

  protected override accept(push: Push): TrlEvent | undefined {
    if (this.lastSeq !== undefined && push.seq <= this.lastSeq) return undefined;
    if (!eventTypes.includes(push.type)) return undefined; // an event of a newer daemon
    const { streamId: _, ...event } = fromWire(push);
    return event as unknown as TrlEvent;
  }
}
