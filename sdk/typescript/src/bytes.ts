const encoder = new TextEncoder();
// A byte order mark is output like any other.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The part of Node's Buffer that is used where it exists, because it is much faster than atob. */
interface Base64Buffer {
  from(data: string, encoding: "base64"): Uint8Array;
  from(data: ArrayBufferLike, offset: number, length: number): { toString(encoding: "base64"): string };
}

const buffer = (globalThis as { Buffer?: Base64Buffer }).Buffer;

export function encodeText(text: string): Uint8Array {
  return encoder.encode(text);
}

export function decodeText(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

export function decodeBase64(text: string): Uint8Array {
  if (buffer) {
    const bytes = buffer.from(text, "base64");
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function encodeBase64(bytes: Uint8Array): string {
  if (buffer) return buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

/** The exact bytes of a pair of fields: text, and base64 where the bytes are not UTF-8. */
export function exactBytes(text: string | undefined, base64: string | undefined): Uint8Array {
  return base64 ? decodeBase64(base64) : encodeText(text ?? "");
}

/** The value of a text field, or of its base64 sibling for bytes. */
export type TextOrBytes = string | Uint8Array;

/** A pair of wire fields that carries data exactly. `plain` says whether this text may be sent unencoded. */
export function dataFields(name: string, data: TextOrBytes, plain: (text: string) => boolean = () => true): Record<string, string> {
  if (typeof data === "string" && plain(data)) return { [name]: data };
  if (typeof data !== "string" && !ArrayBuffer.isView(data)) throw new TypeError(`${name}: must be a string or a Uint8Array`);
  return { [name + "_base64"]: encodeBase64(typeof data === "string" ? encodeText(data) : data) };
}
