import { ConnectionLostError, TrlError, reason } from "./errors.js";
import { Cutter } from "./lines.js";
import { onAbort, type Push, type Pushes, type WireRequest } from "./transport.js";
import type { ErrorBody, StreamStart } from "./types.js";

/** How many bytes of one stream may wait in memory for its consumer before the connection stops reading. */
const enough = 256 * 1024;
/** How many bytes may wait if the connection must go on reading for other callers; beyond that the stream is given up. */
const tooMuch = 64 * 1024 * 1024;

/** The maximum number of bytes that follow the line of a push. */
const maxRaw = 8 * 1024 * 1024;

/** The two directions of a connection, and the hooks of its owner. */
export interface LineIO {
  /** Bytes, or messages that are one line each. */
  readonly readable: AsyncIterable<Uint8Array | string>;
  /** `done` gets the error of a line that was not written whole. */
  readonly writable: { write(line: string, done: (error?: Error | null) => void): unknown; on?(event: "error", listener: () => void): unknown };
  /** Is called with whether a caller waits: only then does the connection keep the process alive. */
  hold(wanted: boolean): void;
  destroy(): void;
  /** Adds details to the cause of the end, for the error. */
  explain?(cause: string): string;
}

interface Answer {
  id?: unknown;
  ok?: boolean;
  data?: unknown;
  error?: ErrorBody;
}

interface Waiting {
  resolve(answer: Answer | PushQueue): void;
  reject(error: unknown): void;
  streams: boolean;
  unsent: boolean; // the daemon did not get the whole line, so it did nothing
}

/**
 * One connection that speaks the line protocol. Calls and streams may share it.
 * It stops reading while a stream has enough for its consumer, unless another caller waits,
 * whose answer may come after the data of that stream.
 */
export class LineConnection {
  #io: LineIO;
  #lastID = 0;
  #waiting = new Map<string, Waiting>();
  #streams = new Map<string, PushQueue>();
  #refusal: TrlError | undefined; // the daemon's error for the connection as a whole
  #lost: TrlError | undefined;
  #wake: (() => void) | undefined; // set while reading is paused
  /** Is called when the connection has ended, with the error that waiting callers got. */
  onLost: ((error: TrlError) => void) | undefined;

  constructor(io: LineIO) {
    this.#io = io;
    io.writable.on?.("error", () => {}); // the reader notices too, after the last messages of the daemon
    this.#holdWhileWanted();
    void this.#read();
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  async call(request: WireRequest, signal?: AbortSignal): Promise<unknown> {
    const answer = (await this.#send(request, signal, false)) as Answer;
    if (!answer.ok) throw TrlError.from(answer.error); // made here, so that its stack names the caller
    return answer.data;
  }

  /** Opens a stream on this connection. `closed` is called once, when the stream has ended. */
  async open(request: WireRequest, signal: AbortSignal | undefined, closed: () => void): Promise<Pushes> {
    const queue = await this.#send(request, signal, true);
    if (!(queue instanceof PushQueue)) throw TrlError.from(queue.error);
    const stop = onAbort(signal, (why) => queue.end(why));
    queue.onEnd(() => {
      stop();
      this.#streams.delete(queue.start.stream_id);
      this.#holdWhileWanted();
      closed();
    });
    return queue;
  }

  /** Ends one stream of this connection, which other streams share. */
  closeStream(streamID: string): void {
    if (this.#lost) return;
    this.call({ method: "stream.close", params: { stream_id: streamID } }).catch(() => {}); // an error means that the stream ended with its connection
  }

  /** Closes this side. The connection has ended when the other side has closed it, too. */
  hangUp(): void {
    this.#io.destroy();
  }

  /** Ends the connection. Waiting callers get an error: the given one, unless the daemon sent one. */
  lose(cause: string, error?: TrlError): void {
    if (this.#lost) return;
    this.#lost = this.#refusal ?? error ?? new ConnectionLostError(`daemon: connection lost: ${this.#io.explain?.(cause) ?? cause}`, true);
    this.#lost.lost = true;
    for (const waiting of this.#waiting.values()) waiting.reject(waiting.unsent ? this.#unsentError(this.#lost) : this.#lost);
    this.#waiting.clear();
    for (const queue of [...this.#streams.values()]) queue.end(this.#lost, true);
    this.#readOn();
    this.#io.destroy();
    this.onLost?.(this.#lost);
  }

  /** The error of a request that the daemon did not get. */
  #unsentError(lost: TrlError): TrlError {
    return lost instanceof ConnectionLostError ? new ConnectionLostError(lost.message, false) : lost;
  }

  #send(request: WireRequest, signal: AbortSignal | undefined, streams: boolean): Promise<Answer | PushQueue> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      if (this.#lost) return reject(this.#unsentError(this.#lost));
      const id = String(++this.#lastID);
      // Asks for the output of a stream as bytes after each push. An older daemon ignores that, and sends JSON.
      const line = JSON.stringify({ id, ...request, ...(streams && { raw: true }) }) + "\n";
      const forget = () => {
        this.#waiting.delete(id);
        this.#holdWhileWanted();
        stop();
      };
      const stop = onAbort(signal, (why) => {
        forget();
        reject(why);
      });
      const waiting: Waiting = {
        streams,
        unsent: false,
        resolve: (answer) => {
          forget();
          resolve(answer);
        },
        reject: (error) => {
          forget();
          reject(error);
        },
      };
      this.#waiting.set(id, waiting);
      this.#holdWhileWanted();
      this.#io.writable.write(line, (error) => (waiting.unsent = error != null));
      this.#readOn();
    });
  }

  #holdWhileWanted(): void {
    this.#io.hold(this.#waiting.size > 0 || this.#streams.size > 0);
  }

  async #read(): Promise<void> {
    const cutter = new Cutter();
    let push: { message: Push; raw: number; size: number } | undefined; // a push whose bytes have not arrived yet
    try {
      for await (const chunk of this.#io.readable) {
        if (typeof chunk === "string") {
          this.#take(chunk);
          await this.#pauseWhileFull();
          if (this.#lost) return;
          continue;
        }
        cutter.feed(chunk);
        for (;;) {
          if (!push) {
            const line = cutter.line();
            if (line === undefined) break;
            push = this.#take(line);
          }
          if (push) {
            const raw = cutter.bytes(push.raw);
            if (!raw) break;
            this.#streams.get(push.message.stream_id)?.put({ ...push.message, raw }, push.size + raw.length);
            push = undefined;
          }
          await this.#pauseWhileFull();
          if (this.#lost) return;
        }
      }
      this.lose("the daemon closed it");
    } catch (cause) {
      this.lose(reason(cause), cause instanceof TrlError ? cause : undefined);
    }
  }

  async #pauseWhileFull(): Promise<void> {
    while (this.#mayPause()) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  /** Whether a stream has more than enough, and no caller waits. */
  #mayPause(): boolean {
    let full = false;
    for (const queue of this.#streams.values()) {
      if (queue.isWanted) return false;
      full ||= queue.isFull;
    }
    return full && this.#waiting.size === 0;
  }

  #readOn(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  /** Hands out one message; a push whose output follows as bytes is returned instead. */
  #take(line: string): { message: Push; raw: number; size: number } | undefined {
    const { raw, ...message } = JSON.parse(line) as Answer & Omit<Push, "raw"> & { raw?: unknown };
    if ("ok" in message) this.#answer(message);
    else if (raw === undefined) this.#streams.get(message.stream_id)?.put(message, line.length);
    else if (Number.isInteger(raw) && (raw as number) >= 0 && (raw as number) <= maxRaw) return { message, raw: raw as number, size: line.length };
    else throw new Error("a push with a wrong number of bytes");
    return undefined;
  }

  #answer(message: Answer): void {
    const waiting = this.#waiting.get(String(message.id));
    if (!waiting) {
      if (message.error && (message.id === null || message.id === undefined)) this.#refusal = TrlError.from(message.error);
      return;
    }
    if (!message.ok || !waiting.streams) return waiting.resolve(message);
    // The stream is registered before the pushes after this answer are read.
    const queue = new PushQueue(message.data as StreamStart, () => this.#readOn());
    this.#streams.set(queue.start.stream_id, queue);
    waiting.resolve(queue);
  }
}

/** The pushes of one stream that its one consumer has not taken yet. */
class PushQueue implements Pushes {
  readonly start: StreamStart;
  #items: { event: Push; size: number }[] = [];
  #size = 0;
  #over: { error: unknown } | undefined;
  #taker: { resolve(event: Push): void; reject(error: unknown): void } | undefined;
  #changed: () => void;
  #onEnd: (() => void) | undefined;

  /** `changed` is called when the consumer has taken something or waits for more. */
  constructor(start: StreamStart, changed: () => void) {
    this.start = start;
    this.#changed = changed;
  }

  get isFull(): boolean {
    return this.#size >= enough;
  }

  get isWanted(): boolean {
    return this.#taker !== undefined;
  }

  /** Calls f when the stream has ended, at once if it already has. */
  onEnd(f: () => void): void {
    if (this.#over) f();
    else this.#onEnd = f;
  }

  put(event: Push, size: number): void {
    if (this.#over) return;
    if (this.#taker) {
      const taker = this.#taker;
      this.#taker = undefined;
      return taker.resolve(event);
    }
    this.#items.push({ event, size });
    this.#size += size;
    if (this.#size > tooMuch) this.end(new TrlError("RESOURCE_PRESSURE", "stream: was not read while other callers of its connection waited; read it faster, or use another client for it"), true);
  }

  next(): Promise<Push> {
    const item = this.#items.shift();
    if (!item && this.#over) return Promise.reject(this.#over.error);
    if (item) this.#size -= item.size;
    const taken = item ? Promise.resolve(item.event) : new Promise<Push>((resolve, reject) => (this.#taker = { resolve, reject }));
    this.#changed();
    return taken;
  }

  close(): void {
    this.end(new ConnectionLostError("stream: closed by this side", true));
  }

  /** Ends the stream. Pushes that arrived before can still be read, if the stream keeps them. */
  end(error: unknown, keep = false): void {
    if (this.#over) return;
    this.#over = { error };
    if (!keep) this.#items = [];
    this.#taker?.reject(error);
    this.#taker = undefined;
    this.#changed();
    this.#onEnd?.();
  }
}
