const encoder = new TextEncoder();
// A byte order mark is output like any other.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const buffer = globalThis.Buffer;
export function encodeText(text) {
    return encoder.encode(text);
}
export function decodeText(bytes) {
    return decoder.decode(bytes);
}
export function decodeBase64(text) {
    if (buffer) {
        const bytes = buffer.from(text, "base64");
        return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++)
        bytes[i] = binary.charCodeAt(i);
    return bytes;
}
export function encodeBase64(bytes) {
    if (buffer)
        return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
    let binary = "";
    for (let i = 0; i < bytes.length; i += 0x8000)
        binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return btoa(binary);
}
/** The exact bytes of a pair of fields: text, and base64 where the bytes are not UTF-8. */
export function exactBytes(text, base64) {
    return base64 ? decodeBase64(base64) : encodeText(text ?? "");
}
/** A pair of wire fields that carries data exactly. `plain` says whether this text may go as it is. */
export function dataFields(name, data, plain = () => true) {
    if (typeof data === "string" && plain(data))
        return { [name]: data };
    return { [name + "_base64"]: encodeBase64(typeof data === "string" ? encodeText(data) : data) };
}
