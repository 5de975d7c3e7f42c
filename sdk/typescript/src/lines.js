/**
 * Cuts a stream of bytes into lines and counted bytes. Bytes are decoded only when a line is whole,
 * so a character may be spread over chunks; a long line costs one copy, not one per chunk.
 */
export class Cutter {
    #decoder = new TextDecoder();
    #chunk = new Uint8Array(0);
    #at = 0;
    #parts = []; // pieces of a line, or of counted bytes, that is not complete yet
    #size = 0; // size of the parts
    /** Adds the next bytes. Take out everything that is complete first. */
    feed(chunk) {
        this.#chunk = chunk;
        this.#at = 0;
    }
    /** The next complete line, without its end. Blank lines are skipped. */
    line() {
        while (this.#at < this.#chunk.length) {
            const end = this.#chunk.indexOf(10, this.#at);
            this.#take(end < 0 ? this.#chunk.length : end);
            if (end < 0)
                return undefined;
            this.#at++;
            const line = this.#decoder.decode(this.#parts.length === 1 ? this.#parts[0] : this.#joined()).trim();
            this.#begin();
            if (line)
                return line;
        }
        return undefined;
    }
    /** The next n bytes, as a copy. If they have not all arrived, the caller must ask for the same bytes again. */
    bytes(n) {
        this.#take(Math.min(this.#chunk.length, this.#at + n - this.#size));
        if (this.#size < n)
            return undefined;
        const bytes = this.#joined();
        this.#begin();
        return bytes;
    }
    #take(end) {
        this.#parts.push(this.#chunk.subarray(this.#at, end));
        this.#size += end - this.#at;
        this.#at = end;
    }
    #joined() {
        const whole = new Uint8Array(this.#size);
        let at = 0;
        for (const part of this.#parts) {
            whole.set(part, at);
            at += part.length;
        }
        return whole;
    }
    #begin() {
        this.#parts = [];
        this.#size = 0;
    }
}
