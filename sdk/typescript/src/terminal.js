import { dataFields } from "./bytes.js";
import { TrlError } from "./errors.js";
import { fromWire, toWire } from "./names.js";
import { AnySession, Exec, newWriteID } from "./session.js";
import { Chunk, PushStream } from "./stream.js";
/** A session that is one program. It ends with the program; what it left can still be read. */
class ProgramSession extends AnySession {
    /** The program as a command: its output by offset, its exit, its signals. */
    exec;
    /** For Trl. */
    constructor(trl, info) {
        super(trl, info);
        this.exec = new Exec(trl, info.execId ?? "");
    }
    /** Waits until what the options ask for, or the end of the program; null when timeoutMs is over first. */
    async wait(options) {
        const { signal, ...rest } = options;
        const result = await this.trl.call("session.wait", { sessionId: this.id, ...rest }, { signal });
        return result.timedOut ? null : result;
    }
    /** @internal */
    async write(params, { signal, writeId = newWriteID() }) {
        const request = { method: "session.input", params: { session_id: this.id, write_id: writeId, ...params } };
        return fromWire(await this.trl.request(request, signal));
    }
}
/** A program on a pseudo-terminal, with a screen. */
export class Terminal extends ProgramSession {
    /** Types text, then presses the keys. A line is ended by the key enter. It is typed once, however often it is sent. */
    async input(data, options = {}) {
        const fields = typeof data === "string" ? { text: data } : dataFields("data", data);
        return this.write({ ...(data.length > 0 && fields), ...(options.keys && { keys: options.keys }) }, options);
    }
    /** Presses keys, one after the other: enter, tab, esc, up, f5, ctrl-c, alt-x, shift-tab, or one character. */
    async keys(...keys) {
        return this.write({ keys }, {});
    }
    /** Pastes text: between marks, if the program asked for them. Then presses the keys. */
    async paste(text, options = {}) {
        return this.write({ paste: text, ...(options.keys && { keys: options.keys }) }, options);
    }
    async screen(options = {}) {
        const { signal, ...rest } = options;
        const screen = await this.trl.call("session.screen", { sessionId: this.id, ...rest }, { signal });
        // An empty text is not on the wire.
        return rest.format === "cells" || rest.sinceVersion !== undefined ? screen : { ...screen, text: screen.text ?? "" };
    }
    /** Gives the terminal another size. While a viewer owns the size this is an error, unless it is forced. */
    async resize(cols, rows, options = {}) {
        const { signal, ...rest } = options;
        return this.trl.call("session.resize", { sessionId: this.id, cols, rows, ...rest }, { signal });
    }
    /** Yields what makes a terminal show the screen, all that follows, and the exit. */
    attach(options = {}) {
        const { signal, reconnect, ...rest } = options;
        return new TerminalStream(this.trl, { session_id: this.id, ...toWire(rest) }, { signal, reconnect });
    }
    /** Yields the recording, an asciicast, piece by piece up to its present end. */
    async *recording(options = {}) {
        for (let offset = options.offset ?? 0;;) {
            const piece = await this.trl.call("session.recording", { sessionId: this.id, offset }, { signal: options.signal });
            if (piece.data !== "")
                yield piece.data;
            offset = piece.offset + new TextEncoder().encode(piece.data).length;
            if (piece.data === "" || offset >= piece.total)
                return;
        }
    }
}
/** A program on three pipes. */
export class Program extends ProgramSession {
    /** Writes to the program's stdin; with close, and ends it. It is written once, however often it is sent. */
    async input(data, options = {}) {
        const fields = typeof data === "string" ? { text: data } : dataFields("data", data);
        return this.write({ ...(data.length > 0 && fields), ...(options.close && { close: true }) }, options);
    }
    /** Ends the program's stdin. */
    async closeInput(options = {}) {
        return this.write({ close: true }, options);
    }
    /** Yields the bytes of stdout from an offset on, until the program has ended. */
    stdout(options = {}) {
        return this.#bytes("stdout", options);
    }
    /** Yields the bytes of stderr from an offset on, until the program has ended. */
    stderr(options = {}) {
        return this.#bytes("stderr", options);
    }
    /** Bytes that are not kept any more are an error: a protocol cannot go on behind a gap. */
    async *#bytes(stream, options) {
        for await (const item of this.exec.stream({ stream, ...options })) {
            if (item.type === "gap") {
                const { from, to } = item;
                throw new TrlError("INVALID_PARAMS", `exec "${this.exec.id}": the bytes ${from} to ${to - 1} of ${stream} are gone`, { gap: { from, to } });
            }
            if (item.type === stream)
                yield item;
        }
    }
}
/** A whole screen: a fresh terminal of that size that is written the bytes shows it. The output goes on at `offset`. */
export class Snapshot extends Chunk {
    cols;
    rows;
    /** The viewer whose size is followed. */
    ownerId;
    /** That of the screen, for `sinceVersion`. */
    version;
    constructor(push) {
        super(push);
        this.cols = push.cols ?? 0;
        this.rows = push.rows ?? 0;
        this.ownerId = push.owner_id;
        this.version = push.version ?? 0;
    }
}
/** Bytes of the program. They never end inside a character. */
export class TerminalOutput extends Chunk {
}
/**
 * What a terminal shows: a snapshot, the bytes that follow, changes of size, the exit.
 * After a lost connection it goes on with exactly the bytes that are missing; or with a
 * new snapshot, when they are too many.
 */
export class TerminalStream extends PushStream {
    #trl;
    #sessionId;
    #last;
    #size; // as it was measured last
    #owned = false; // the size of the terminal followed this viewer
    #viewerId = "";
    /** For Terminal. */
    constructor(trl, params, options) {
        super(trl.link, { method: "session.attach", params }, options);
        this.#trl = trl;
        this.#sessionId = params.session_id;
    }
    /** The name of this viewer; another one after each time the connection was lost. */
    async viewerId() {
        await this.opened();
        return this.#viewerId;
    }
    /** Tells the size of this viewer. The terminal follows it if this viewer owns the size. */
    async resize(cols, rows, options = {}) {
        this.#size = { cols, rows };
        const viewerId = await this.viewerId();
        return this.#trl.call("session.resize", { sessionId: this.#sessionId, cols, rows, viewerId }, options);
    }
    started(start) {
        this.#viewerId = start.viewer_id ?? this.#viewerId;
    }
    repeatable() {
        return true;
    }
    resume(_, { method, params }) {
        const from_offset = this.#offset();
        if (from_offset === undefined)
            return { method, params };
        const { take_size: _take, ...rest } = params;
        // Who owned the size keeps it; the daemon may still know the viewer that is gone.
        return { method, params: { ...rest, from_offset, ...(this.#size && { size: this.#size }), ...(this.#owned && { take_size: true }) } };
    }
    whereabouts() {
        return { session_id: this.#sessionId, from_offset: this.#offset() };
    }
    /** Where the output goes on. */
    #offset() {
        return this.#last?.type === "output" ? this.#last.offset + this.#last.bytes.length : this.#last?.offset;
    }
    accept(push) {
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
            case "exit": {
                const { streamId: _, ...exit } = fromWire(push);
                return exit;
            }
            default:
                return undefined; // of a newer daemon
        }
    }
}
