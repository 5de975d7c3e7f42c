import { ConnectionLostError, TrlError, reason } from "./errors.js";
import { LineSplitter } from "./lines.js";
import { onAbort } from "./transport.js";
/** How much of one stream waits in memory for its consumer before nothing more is read. */
const enough = 256 * 1024;
/** How much of it may come while others on the same connection wait for something; then the stream is given up. */
const tooMuch = 64 * 1024 * 1024;
/**
 * One connection that speaks the line protocol. Calls and streams may share it.
 * Nothing is read while a stream has enough for its consumer, unless somebody waits
 * for something else: that may lie behind what nobody takes.
 */
export class LineConnection {
    #io;
    #lastID = 0;
    #waiting = new Map();
    #streams = new Map();
    #refusal; // what the daemon said to the connection as a whole
    #lost;
    #wake; // set while nothing is read
    constructor(io) {
        this.#io = io;
        io.writable.on("error", () => { }); // the reader finds out too, after the last words of the daemon
        this.#holdWhileWanted();
        void this.#read();
    }
    get isLost() {
        return this.#lost !== undefined;
    }
    async call(request, signal) {
        const answer = (await this.#send(request, signal, false));
        if (!answer.ok)
            throw TrlError.from(answer.error); // made here, so that its stack tells who called
        return answer.data;
    }
    /** Opens a stream on this connection. `closed` is called once, when it is over. */
    async open(request, signal, closed) {
        const queue = await this.#send(request, signal, true);
        if (!(queue instanceof PushQueue))
            throw TrlError.from(queue.error);
        const stop = onAbort(signal, (why) => queue.end(why));
        queue.onEnd(() => {
            stop();
            this.#streams.delete(queue.start.stream_id);
            this.#holdWhileWanted();
            closed();
        });
        return queue;
    }
    /** Ends the connection. Whoever waits gets an error. */
    lose(cause) {
        if (this.#lost)
            return;
        this.#lost = this.#refusal ?? new ConnectionLostError(`daemon: connection lost: ${this.#io.explain?.(cause) ?? cause}`, true);
        for (const waiting of this.#waiting.values())
            waiting.reject(this.#lost);
        this.#waiting.clear();
        for (const queue of [...this.#streams.values()])
            queue.end(this.#lost, true);
        this.#readOn();
        this.#io.destroy();
    }
    #send(request, signal, streams) {
        return new Promise((resolve, reject) => {
            if (signal?.aborted)
                return reject(signal.reason);
            if (this.#lost)
                return reject(this.#refusal ?? new ConnectionLostError(this.#lost.message, false));
            const id = String(++this.#lastID);
            const line = JSON.stringify({ id, ...request }) + "\n";
            const forget = () => {
                this.#waiting.delete(id);
                this.#holdWhileWanted();
                stop();
            };
            const stop = onAbort(signal, (why) => {
                forget();
                reject(why);
            });
            this.#waiting.set(id, {
                streams,
                resolve: (answer) => {
                    forget();
                    resolve(answer);
                },
                reject: (error) => {
                    forget();
                    reject(error);
                },
            });
            this.#holdWhileWanted();
            this.#io.writable.write(line);
            this.#readOn();
        });
    }
    #holdWhileWanted() {
        this.#io.hold(this.#waiting.size > 0 || this.#streams.size > 0);
    }
    async #read() {
        const splitter = new LineSplitter();
        try {
            for await (const chunk of this.#io.readable) {
                for (const line of splitter.take(chunk)) {
                    this.#take(line);
                    while (this.#mayPause())
                        await new Promise((resolve) => (this.#wake = resolve));
                    if (this.#lost)
                        return;
                }
            }
            this.lose("the daemon closed it");
        }
        catch (cause) {
            this.lose(reason(cause));
        }
    }
    /** Whether somebody has more than enough, and nobody waits. */
    #mayPause() {
        let full = false;
        for (const queue of this.#streams.values()) {
            if (queue.isWanted)
                return false;
            full ||= queue.isFull;
        }
        return full && this.#waiting.size === 0;
    }
    #readOn() {
        this.#wake?.();
        this.#wake = undefined;
    }
    /** Hands out one message. */
    #take(line) {
        const message = JSON.parse(line);
        if ("ok" in message)
            this.#answer(message);
        else
            this.#streams.get(message.stream_id)?.put(message, line.length);
    }
    #answer(message) {
        const waiting = this.#waiting.get(String(message.id));
        if (!waiting) {
            if (message.error && (message.id === null || message.id === undefined))
                this.#refusal = TrlError.from(message.error);
            return;
        }
        if (!message.ok || !waiting.streams)
            return waiting.resolve(message);
        // The stream is known before the pushes behind this answer are read.
        const queue = new PushQueue(message.data, () => this.#readOn());
        this.#streams.set(queue.start.stream_id, queue);
        waiting.resolve(queue);
    }
}
/** The pushes of one stream that its one consumer has not taken yet. */
class PushQueue {
    start;
    #items = [];
    #size = 0;
    #over;
    #taker;
    #changed;
    #onEnd;
    /** `changed` is called when the consumer has taken something or waits for more. */
    constructor(start, changed) {
        this.start = start;
        this.#changed = changed;
    }
    get isFull() {
        return this.#size >= enough;
    }
    get isWanted() {
        return this.#taker !== undefined;
    }
    /** Calls f when the stream is over, at once if it is already. */
    onEnd(f) {
        if (this.#over)
            f();
        else
            this.#onEnd = f;
    }
    put(event, size) {
        if (this.#over)
            return;
        if (this.#taker) {
            const taker = this.#taker;
            this.#taker = undefined;
            return taker.resolve(event);
        }
        this.#items.push({ event, size });
        this.#size += size;
        if (this.#size > tooMuch)
            this.end(new TrlError("RESOURCE_PRESSURE", "stream: not read while others on its connection waited"), true);
    }
    next() {
        const item = this.#items.shift();
        if (!item && this.#over)
            return Promise.reject(this.#over.error);
        if (item)
            this.#size -= item.size;
        const taken = item ? Promise.resolve(item.event) : new Promise((resolve, reject) => (this.#taker = { resolve, reject }));
        this.#changed();
        return taken;
    }
    close() {
        this.end(new ConnectionLostError("stream: closed by this side", true));
    }
    /** Ends the stream. What has arrived before can still be taken if it is to be kept. */
    end(error, keep = false) {
        if (this.#over)
            return;
        this.#over = { error };
        if (!keep)
            this.#items = [];
        this.#taker?.reject(error);
        this.#taker = undefined;
        this.#changed();
        this.#onEnd?.();
    }
}
