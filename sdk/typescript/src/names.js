/** The fields whose value is not ours to rename: a map with keys that are data, or what an agent or its tool said. */
export const verbatim = new Set(["env", "limits", "details", "answers", "input", "structured", "data"]);
/** Renames the fields of parameters for the wire, at every depth. */
export function toWire(value) {
    return rename(value, snakeName);
}
/** Renames the fields of what came from the wire, at every depth. */
export function fromWire(value) {
    return rename(value, camelName);
}
const camelNames = new Map();
/** Every push has the same few names, so they are remembered; a foreign server cannot make this grow without end. */
function camelName(name) {
    let camel = camelNames.get(name);
    if (camel === undefined) {
        camel = name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
        if (camelNames.size < 1000)
            camelNames.set(name, camel);
    }
    return camel;
}
function snakeName(name) {
    return name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
}
function rename(value, name) {
    if (Array.isArray(value))
        return value.map((item) => rename(item, name));
    if (typeof value !== "object" || value === null)
        return value;
    const renamed = {};
    for (const [key, item] of Object.entries(value)) {
        if (item === undefined || key === "__proto__")
            continue;
        renamed[name(key)] = verbatim.has(key) ? item : rename(item, name);
    }
    return renamed;
}
