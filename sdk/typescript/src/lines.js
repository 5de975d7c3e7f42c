/**
 * Cuts a stream of bytes into lines. Bytes are decoded only when a line is whole,
 * so a character may be spread over chunks; a long line costs one copy, not one per chunk.
 */
export class LineSplitter {
    #decoder = new TextDecoder();
    #parts = [];
    /** Takes the next bytes and returns the lines that are whole with them. Blank lines are left out. */
    take(chunk) {
        const lines = [];
        let start = 0;
        for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
            const line = this.#join(chunk.subarray(start, end)).trim();
            if (line)
                lines.push(line);
            start = end + 1;
        }
        if (start < chunk.length)
            this.#parts.push(chunk.subarray(start));
        return lines;
    }
    #join(last) {
        if (this.#parts.length === 0)
            return this.#decoder.decode(last);
        this.#parts.push(last);
        const line = new Uint8Array(this.#parts.reduce((sum, part) => sum + part.length, 0));
        let at = 0;
        for (const part of this.#parts) {
            line.set(part, at);
            at += part.length;
        }
        this.#parts = [];
        return this.#decoder.decode(line);
    }
}
