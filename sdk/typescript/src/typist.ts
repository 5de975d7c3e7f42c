import { dataFields, type TextOrBytes } from "./bytes.js";
import { TrlError } from "./errors.js";
import { newWriteID } from "./ids.js";
import { isUnavailable } from "./reconnect.js";

/** The maximum number of characters in one call, and of characters that wait for their turn. */
const most = 64 * 1024;

/** The parameters of session.input, without the session. */
export interface TypistInput {
  readonly [name: string]: unknown;
  readonly write_id: string;
}

/** How a typist handles input that cannot be typed. */
export interface TypistOptions {
  /** Whether input that did not reach the terminal waits for `resume`. Absent: it is refused. */
  waits?: boolean | undefined;
  /** Is called for refused input; later input is still typed. Absent: later input is refused, too. */
  onRefused?: ((error: unknown) => void) | undefined;
  /** Is called when `calls` has changed. */
  onChange?: (() => void) | undefined;
}

/** Input that waits to be typed by one call. */
interface Piece {
  data: TextOrBytes;
  paste: boolean;
  keys: string[];
  id: string; // "" until the call is sent; from then on it does not change
  done: { resolve(): void; reject(error: unknown): void }[];
}

/**
 * Types everything once and in order, however fast its caller is. One call is in progress at a time;
 * input that arrives meanwhile is joined and sent with the next call. A call that is lost with its
 * connection is sent again with the same id.
 */
export class Typist {
  #send: (input: TypistInput) => Promise<unknown>;
  #options: TypistOptions;
  #queue: Piece[] = [];
  #busy = false;
  #failed: { error: unknown } | undefined;

  /** `send` calls session.input. */
  constructor(send: (input: TypistInput) => Promise<unknown>, options: TypistOptions = {}) {
    this.#send = send;
    this.#options = options;
  }

  /** How many characters and keys wait to be typed, including those in the current call. */
  get waiting(): number {
    return this.#queue.reduce((n, one) => n + one.data.length + one.keys.length, 0);
  }

  /** How many calls the waiting input takes, including the current one. */
  get calls(): number {
    return this.#queue.length;
  }

  /** Whether there is room for so many more characters. A page should stop taking keys when there is not. */
  hasRoom(characters: number): boolean {
    return this.#queue.reduce((n, one) => (one.paste || one.id ? n : n + one.data.length), characters) <= most;
  }

  /** Types text, or bytes as they are, then presses the keys. The promise is fulfilled when the input is typed; callers need not wait for it. */
  type(data: TextOrBytes, ...keys: string[]): Promise<void> {
    return this.#add({ data, paste: false, keys });
  }

  /** Pastes text, as a bracketed paste if the program asked for that. */
  paste(text: string): Promise<void> {
    return this.#add({ data: text, paste: true, keys: [] });
  }

  /** Presses keys. */
  keys(...keys: string[]): Promise<void> {
    return this.#add({ data: "", paste: false, keys });
  }

  /** Continues with the waiting input, once the terminal can be reached again. */
  resume(): void {
    if (!this.#busy) void this.#run();
  }

  /** Types nothing more. Waiting input is refused. */
  close(): void {
    this.#fail(new TrlError("CANCELLED", "typist: is closed"));
  }

  #add(input: Pick<Piece, "data" | "paste" | "keys">): Promise<void> {
    const typed = new Promise<void>((resolve, reject) => {
      if (this.#failed) return reject(this.#failed.error);
      const done = { resolve, reject };
      const last = this.#queue.at(-1);
      if (last && joins(last, input)) {
        last.data = (last.data as string) + (input.data as string);
        last.done.push(done);
      } else {
        this.#queue.push({ ...input, id: "", done: [done] });
        this.#options.onChange?.();
      }
    });
    typed.catch(() => {}); // a caller that does not wait must not end the process
    this.resume();
    return typed;
  }

  async #run(): Promise<void> {
    this.#busy = true;
    try {
      for (let next = this.#queue[0]; next; next = this.#queue[0]) {
        next.id ||= newWriteID();
        let refused: { error: unknown } | undefined;
        try {
          await this.#send(fields(next));
        } catch (error) {
          if (this.#failed) return;
          if (this.#options.waits && (isUnavailable(error) || (error instanceof TrlError && error.lost))) return;
          if (!this.#options.onRefused) return this.#fail(error); // later input must not be typed without this one
          refused = { error };
        }
        if (this.#failed) return;
        this.#queue.shift();
        this.#options.onChange?.();
        for (const { resolve, reject } of next.done) refused ? reject(refused.error) : resolve();
        if (refused) this.#options.onRefused?.(refused.error);
      }
    } finally {
      this.#busy = false;
    }
  }

  #fail(error: unknown): void {
    this.#failed ??= { error };
    for (const one of this.#queue.splice(0)) for (const { reject } of one.done) reject(error);
    this.#options.onChange?.();
  }
}

/** Whether a text can be joined with the waiting input: text joins text; a paste, keys and bytes stay apart. */
function joins(last: Piece, input: Pick<Piece, "data" | "paste" | "keys">): boolean {
  const isText = (one: Pick<Piece, "data" | "paste" | "keys">) => typeof one.data === "string" && !one.paste && one.keys.length === 0;
  return last.id === "" && isText(last) && isText(input) && last.data.length + input.data.length <= most;
}

function fields({ data, paste, keys, id }: Piece): TypistInput {
  const what = paste ? { paste: data } : data.length === 0 ? {} : typeof data === "string" ? { text: data } : dataFields("data", data);
  return { write_id: id, ...what, ...(keys.length > 0 && { keys }) };
}
