import { dataFields, exactBytes } from "./bytes.js";
import { CommandFailedError } from "./errors.js";
import { fromWire, toWire } from "./names.js";
import { ExecStream } from "./stream.js";
/** What every kind of session has. */
export class AnySession {
    id;
    /** The session as it was when it was created or found. */
    created;
    /** @internal */
    trl;
    /** For Trl. */
    constructor(trl, info) {
        this.trl = trl;
        this.id = info.sessionId;
        this.created = info;
    }
    /** Everything about the session now. */
    async info(options = {}) {
        return this.trl.call("session.info", { sessionId: this.id }, options);
    }
    /** Ends the session and every process in it. With force, at once. */
    async destroy(options = {}) {
        const { signal, ...rest } = options;
        return this.trl.call("session.destroy", { sessionId: this.id, ...rest }, { signal });
    }
    async [Symbol.asyncDispose]() {
        await this.destroy();
    }
}
/** A place to work with a living shell: what one command sets, the next one has. */
export class Session extends AnySession {
    /**
     * Runs a command and waits for its outcome. When the signal is aborted the command
     * is cancelled, unless it is detached; over stdio it goes on in any case.
     */
    async run(command, options = {}) {
        const { signal, ...rest } = options;
        const result = await this.trl.request({ method: "exec.run", params: this.#params(command, rest) }, signal);
        return execResult(fromWire(result));
    }
    /** Runs a command and yields its output as it comes, then its exit. It is started by the first `next`. */
    stream(command, options = {}) {
        const { signal, reconnect, ...rest } = options;
        const request = { method: "exec.stream", params: this.#params(command, rest) };
        return new ExecStream(this.trl.link, request, { signal, reconnect });
    }
    /** Starts a command that goes on by itself. */
    async start(command, options = {}) {
        const { signal, ...rest } = options;
        const info = (await this.trl.request({ method: "exec.start", params: this.#params(command, rest) }, signal));
        return new Exec(this.trl, info.exec_id);
    }
    /** Cancels the command that runs now. */
    async cancel(signalName, options = {}) {
        return this.trl.call("exec.cancel", { sessionId: this.id, ...(signalName && { signal: signalName }) }, options);
    }
    /** The commands of the session that are still known, oldest first. */
    async execs(options = {}) {
        return (await this.trl.call("exec.list", { sessionId: this.id }, options)).execs;
    }
    /** The parameters on the wire, where the word "open" as stdin has a meaning of its own. */
    #params(command, { stdin, stdinOpen, ...options }) {
        const input = stdinOpen ? { stdin: "open" } : stdin === undefined ? {} : dataFields("stdin", stdin, (text) => text !== "open");
        if (stdinOpen && stdin !== undefined)
            throw new TypeError("stdin: cannot be given together with stdinOpen");
        return { session_id: this.id, command, ...toWire(options), ...input };
    }
}
/** One command: running, or ended and still known. */
export class Exec {
    id;
    #trl;
    /** For Trl and Session. */
    constructor(trl, id) {
        this.#trl = trl;
        this.id = id;
    }
    /** Waits until the command exits, or until what the options ask for; null when timeoutMs is over first. */
    async wait(options = {}) {
        const { signal, ...rest } = options;
        const result = await this.#trl.call("exec.wait", { execIds: [this.id], ...rest }, { signal });
        return result.happened[0] ?? null;
    }
    /** Yields the output from its beginning, or from where the options say, and then the exit. */
    stream(options = {}) {
        const { signal, reconnect, ...rest } = options;
        const params = { exec_id: this.id, ...toWire(rest) };
        return new ExecStream(this.#trl.link, { method: "exec.stream", params }, { signal, reconnect });
    }
    /** Reads a part of the kept output. */
    async output(options = {}) {
        const { signal, ...rest } = options;
        const result = await this.#trl.call("exec.output", { execId: this.id, ...rest }, { signal });
        return withBytes(result, { bytes: ["data", "dataBase64"] });
    }
    /** Writes to the stdin of a command that was started with `stdinOpen`. It is written once, however often it is sent. */
    async input(data, options = {}) {
        return this.#write(data, options);
    }
    /** Ends the stdin of a command that was started with `stdinOpen`. */
    async closeInput(options = {}) {
        return this.#write("", { ...options, close: true });
    }
    async #write(data, { signal, close, writeId = newWriteID() }) {
        const params = { exec_id: this.id, write_id: writeId, ...(close && { close }), ...(data.length > 0 && dataFields("data", data)) };
        return fromWire((await this.#trl.request({ method: "exec.input", params }, signal)));
    }
    /** Stops the command and everything it started, with SIGTERM first or the signal of that name. */
    async cancel(signalName, options = {}) {
        return this.#trl.call("exec.cancel", { execId: this.id, ...(signalName && { signal: signalName }) }, options);
    }
    /** State, and outcome if it has ended. */
    async info(options = {}) {
        return this.#trl.call("exec.info", { execId: this.id }, options);
    }
}
/** Adds to a result what is computed from it. */
function execResult(result) {
    const full = withBytes(result, { stdoutData: ["stdout", "stdoutBase64"], stderrData: ["stderr", "stderrBase64"] });
    const check = () => {
        if (full.ok)
            return full;
        throw new CommandFailedError(full);
    };
    return Object.defineProperties(full, { ok: { value: full.exitCode === 0 }, check: { value: check } });
}
/** Adds properties with the exact bytes of pairs of text and base64. They are made when they are asked for. */
function withBytes(result, pairs) {
    for (const [name, [text, base64]] of Object.entries(pairs)) {
        const get = () => exactBytes(result[text], result[base64]);
        Object.defineProperty(result, name, { get, enumerable: false });
    }
    return result;
}
/** Random, so that no other client has it. */
export function newWriteID() {
    return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
