import { exactBytes } from "./bytes.js";
import { TrlError } from "./errors.js";
import { fromWire, toWire } from "./names.js";
import { PushStream } from "./stream.js";
/** A conversation with a coding agent. It goes on without the client, and over a restart of the daemon. */
export class Dialogue {
    id;
    /** The dialogue as it was when it was created or found. */
    created;
    #trl;
    /** For Trl. */
    constructor(trl, info) {
        this.#trl = trl;
        this.id = info.dialogueId;
        this.created = info;
    }
    /** Everything about the dialogue now. */
    async info(options = {}) {
        return this.#trl.call("dialogue.info", { dialogueId: this.id }, options);
    }
    /** Gives the agent a message: a text, or blocks. It is sent once, however often the connection is lost. */
    async send(message, options = {}) {
        const { signal, messageId = newUUID() } = options;
        const what = typeof message === "string" ? { text: message } : { content: message };
        return this.#trl.call("dialogue.send", { dialogueId: this.id, messageId, ...what }, { signal });
    }
    /** Sends a message and waits until its turn has ended, or a request waits for an answer. */
    async sendAndWait(message, options = {}) {
        return this.wait(await this.send(message, options), { signal: options.signal });
    }
    /**
     * Waits for what a message leads to; after the requests of a reply are answered, for
     * what comes then. A message that came while the agent worked may be answered in the
     * turn that ran.
     */
    async wait(after, options = {}) {
        const { messageId } = after;
        const reply = { messageId, seq: after.seq, text: "", requests: await this.#waiting(options) };
        if (reply.requests.length > 0)
            return reply;
        for await (const event of this.events({ afterSeq: after.seq, noDeltas: true, signal: options.signal })) {
            reply.seq = event.seq;
            switch (event.type) {
                case "request_opened":
                    reply.requests = await this.#waiting(options); // a policy may have answered it
                    if (reply.requests.length > 0)
                        return reply;
                    break;
                case "turn_ended":
                    reply.turn = event.turn;
                    reply.text = reply.turn.text ?? "";
                    if (reply.turn.outcome !== "lost" && reply.turn.messages?.includes(messageId))
                        return reply; // else the end follows
                    break;
                case "state": // at rest; the agent did not say which messages the turn was for
                    if (event.state === "idle" && reply.turn && (await this.info(options)).state === "idle")
                        return reply;
                    break;
                case "message":
                    if (event.message?.messageId === messageId && event.message.state === "cancelled")
                        return reply;
                    break;
                case "ended":
                    return { ...reply, ended: event.ended };
            }
        }
        return reply;
    }
    /** The requests that wait for an answer now. */
    async requests(options = {}) {
        return (await this.transcript(options)).requests.filter((request) => !request.how);
    }
    async #waiting(options) {
        return (await this.info(options)).requests > 0 ? this.requests(options) : [];
    }
    /** Answers a request of the agent. A second answer is refused with CONFLICT. */
    async respond(request, answer, options = {}) {
        const requestId = typeof request === "string" ? request : request.requestId;
        return this.#trl.call("dialogue.respond", { dialogueId: this.id, requestId, ...answer }, options);
    }
    /** Allows what a request asks for. */
    async allow(request, answer = {}) {
        return this.respond(request, { decision: "allow", ...answer });
    }
    /** Denies what a request asks for; the message is told to the agent. */
    async deny(request, message = "") {
        return this.respond(request, { decision: "deny", ...(message && { message }) });
    }
    /** Stops what the agent does now. The dialogue goes on. */
    async interrupt(options = {}) {
        return this.#trl.call("dialogue.interrupt", { dialogueId: this.id }, options);
    }
    /** Changes the model, the permission mode or the policy. */
    async set(what, options = {}) {
        return this.#trl.call("dialogue.set", { dialogueId: this.id, ...what }, options);
    }
    /** Yields what has happened and happens, from any event on, until the agent's program has ended. */
    events(options = {}) {
        const { signal, reconnect, ...rest } = options;
        const params = { dialogue_id: this.id, ...toWire(rest) };
        return new DialogueStream(this.#trl.link, { method: "dialogue.events", params }, { signal, reconnect });
    }
    /** The transcript: turns, items with their tool calls, tasks, requests. */
    async transcript(options = {}) {
        return this.#trl.call("dialogue.transcript", { dialogueId: this.id }, options);
    }
    /** Yields what the agent's program wrote, byte for byte, up to its present end; with stream stdin, what was sent to it. */
    async *raw(options = {}) {
        const { signal, offset: first = 0, ...which } = options;
        for (let offset = first;;) {
            const piece = await this.#trl.call("dialogue.raw", { dialogueId: this.id, ...which, offset }, { signal });
            which.epoch = piece.epoch; // the last one may become another
            const bytes = exactBytes(piece.data, piece.dataBase64);
            if (bytes.length > 0)
                yield bytes;
            offset = piece.offset + bytes.length;
            if (bytes.length === 0 || offset >= piece.total)
                return;
        }
    }
    /** Ends the agent's program and everything it started. With force at once; with forget nothing is kept of the dialogue. */
    async terminate(options = {}) {
        const { signal, ...rest } = options;
        return this.#trl.call("dialogue.terminate", { dialogueId: this.id, ...rest }, { signal });
    }
    /** Starts the agent again, in the same dialogue. The environment of before is not kept. */
    async resume(options = {}) {
        const { signal, ...rest } = options;
        return this.#trl.call("dialogue.resume", { dialogueId: this.id, ...rest }, { signal });
    }
    /** Looks again for an agent that could not be reached. */
    async retry(options = {}) {
        return this.#trl.call("dialogue.retry", { dialogueId: this.id }, options);
    }
    async [Symbol.asyncDispose]() {
        try {
            await this.terminate();
        }
        catch (error) {
            if (!(error instanceof TrlError && error.code === "DIALOGUE_NOT_FOUND"))
                throw error;
        }
    }
}
/** What happens in a dialogue. It ends when the agent's program has ended, or with `noFollow` behind what is there. */
export class DialogueStream extends PushStream {
    repeatable() {
        return true;
    }
    resume(_, { method, params }) {
        return { method, params: { ...params, after_seq: this.lastSeq ?? params["after_seq"] ?? 0 } };
    }
    whereabouts() {
        return { after_seq: this.lastSeq };
    }
    accept(push) {
        if (this.lastSeq !== undefined && push.seq <= this.lastSeq)
            return undefined;
        return push.type === "dialogue" && push.event ? fromWire(push.event) : undefined;
    }
}
/** Random, as agents want it. */
function newUUID() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
