import { decodeText, encodeBase64, exactBytes } from "./bytes.js";
import { ConnectionLostError, TrlError } from "./errors.js";
import { fromWire } from "./names.js";
import { isUnavailable, mayHaveBeenDone, Patience } from "./reconnect.js";
import { eventTypes } from "./types.js";
/** Bytes of a stream. */
export class Chunk {
    type;
    /** Orders the items of a stream. */
    seq;
    /** Where the piece begins in its stream, in bytes. */
    offset;
    /** The text, with replacement characters where the bytes are not UTF-8. */
    data;
    #base64;
    constructor(push) {
        this.type = push.type;
        this.seq = push.seq;
        this.offset = push.offset ?? 0;
        this.data = push.data ?? "";
        this.#base64 = push.data_base64;
    }
    /** The exact bytes. */
    get bytes() {
        return exactBytes(this.data, this.#base64);
    }
}
/** A piece of output of a command; `afterSeq` takes its `seq`. */
export class OutputChunk extends Chunk {
}
/**
 * A stream that outlives its connection: when that is lost, the stream is asked for
 * again from where it was, and what comes twice is dropped. It begins with the first
 * item that is asked for, is read no faster than its one consumer takes it, and is
 * let go by break, close or the signal.
 */
export class PushStream {
    #link;
    #request;
    #signal;
    #patience;
    #start;
    #opening;
    #over = false;
    /** The number of the last push, once there is one. */
    lastSeq;
    constructor(link, request, options) {
        this.#link = link;
        this.#request = request;
        this.#signal = options.signal;
        this.#patience = new Patience(link, options);
    }
    /** Takes what was answered, each time the stream is opened. */
    started(_) { }
    /** What another reader needs to go on from here. */
    whereabouts(start) {
        return { exec_id: start?.exec_id, after_seq: this.lastSeq };
    }
    [Symbol.asyncIterator]() {
        return this;
    }
    /** Opens the stream, if it is not open yet. */
    async opened() {
        while (!this.#start)
            await this.#open();
        return this.#start;
    }
    async next() {
        while (!this.#over) {
            const push = await this.#pull();
            if (!push)
                continue;
            if (push.type === "error" || push.type === "exit" || push.type === "end")
                this.#end();
            if (push.type === "error")
                throw TrlError.from(push.error);
            const item = this.accept(push);
            this.lastSeq = Math.max(push.seq, this.lastSeq ?? 0);
            if (item !== undefined)
                return { done: false, value: item };
        }
        return { done: true, value: undefined };
    }
    async return() {
        this.#end();
        return { done: true, value: undefined };
    }
    /** Lets the stream go. The command goes on, unless it was started with `detach: false`. */
    close() {
        this.#end();
    }
    async [Symbol.asyncDispose]() {
        this.#end();
    }
    /** The next push, or nothing when the stream has to be opened again first. */
    async #pull() {
        const pushes = await this.#open();
        if (!pushes || this.#over)
            return undefined;
        try {
            const push = await pushes.next();
            if (push.type === "error" && isUnavailable(TrlError.from(push.error)))
                throw TrlError.from(push.error);
            this.#patience.renew();
            return push;
        }
        catch (error) {
            if (this.#over)
                return undefined;
            await this.#lost(error, pushes);
            return undefined;
        }
    }
    /** Opens the stream from where it was. Nothing is returned when that has to be tried again. */
    async #open() {
        if (this.#over)
            throw new TrlError("CONFLICT", "stream: is closed");
        if (!this.#opening) {
            if (this.#start)
                this.#request = this.resume(this.#start, this.#request);
            this.#opening = this.#link.transport.open(this.#request, this.#signal);
        }
        try {
            const pushes = await this.#opening;
            this.#start ??= pushes.start;
            this.started(pushes.start);
            if (this.#over)
                pushes.close();
            return pushes;
        }
        catch (error) {
            if (this.#over)
                return undefined;
            if (isUnavailable(error) && mayHaveBeenDone(error) && !this.repeatable(this.#request)) {
                this.#end();
                throw error; // a command may have been started
            }
            await this.#lost(error, undefined);
            return undefined;
        }
    }
    /** Waits until it is worth trying again; throws what cannot be helped. */
    async #lost(error, pushes) {
        pushes?.close();
        this.#opening = undefined;
        try {
            this.#signal?.throwIfAborted();
            if (!isUnavailable(error))
                throw error;
            await this.#patience.pause(error, this.#signal);
        }
        catch (final) {
            this.#end();
            if (!(final instanceof ConnectionLostError))
                throw final;
            throw new ConnectionLostError(final.message, final.sent, final, this.whereabouts(this.#start));
        }
    }
    #end() {
        if (this.#over)
            return;
        this.#over = true;
        void this.#opening?.then((pushes) => pushes.close()).catch(() => { });
    }
}
/** The output of one command as it comes, and then its exit. */
export class ExecStream extends PushStream {
    #last = {};
    #have = {}; // where the bytes end that came before the last resume
    /** Starts the command if that was not done yet, and returns its id. */
    async execId() {
        return (await this.opened()).exec_id ?? "";
    }
    repeatable(request) {
        return request.params["exec_id"] !== undefined;
    }
    resume(start, { method, params }) {
        for (const name of ["stdout", "stderr"])
            this.#have[name] = this.#endOf(name);
        const { exec_id, stream, from_offset, after_seq } = { ...params, exec_id: start.exec_id };
        const from = this.lastSeq === undefined ? { from_offset, after_seq } : { after_seq: this.lastSeq };
        return { method, params: { exec_id, stream, ...from } };
    }
    #endOf(name) {
        const last = this.#last[name];
        if (!last)
            return 0;
        return last.type === "gap" ? last.to : last.offset + last.bytes.length;
    }
    accept(push) {
        switch (push.type) {
            case "stdout":
            case "stderr":
                return this.#chunk(push);
            case "gap":
                return this.#gap(push);
            case "exit": {
                const { streamId: _, ...exit } = fromWire(push);
                return exit;
            }
            default:
                return undefined; // of a newer daemon
        }
    }
    #chunk(push) {
        let chunk = new OutputChunk(push);
        const repeated = (this.#have[chunk.type] ?? 0) - chunk.offset;
        if (repeated > 0) {
            const rest = chunk.bytes.subarray(repeated);
            if (rest.length === 0)
                return undefined;
            chunk = new OutputChunk({ ...push, offset: chunk.offset + repeated, data: decodeText(rest), data_base64: encodeBase64(rest) });
        }
        return (this.#last[chunk.type] = chunk);
    }
    #gap({ seq, stream = "stdout", from = 0, to = 0 }) {
        const gap = { type: "gap", seq, stream, from: Math.max(from, this.#have[stream] ?? 0), to };
        if (gap.from >= gap.to)
            return undefined;
        return (this.#last[stream] = gap);
    }
}
/** What happens to sessions and commands, as it happens. It does not end by itself. */
export class EventStream extends PushStream {
    repeatable() {
        return true;
    }
    resume(start, { method, params }) {
        return { method, params: { ...params, after_seq: this.lastSeq ?? params["after_seq"] ?? start.seq ?? 0 } };
    }
    accept(push) {
        if (this.lastSeq !== undefined && push.seq <= this.lastSeq)
            return undefined;
        if (!eventTypes.includes(push.type))
            return undefined; // of a newer daemon
        const { streamId: _, ...event } = fromWire(push);
        return event;
    }
}
