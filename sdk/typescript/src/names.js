/** The fields whose values must not be renamed: maps whose keys are data, and values that come from an agent or its tools. */
export const verbatim = new Set(["env", "labels", "node_selector", "details", "answers", "input", "effective_input", "structured", "data", "cut", "transports"]);
/** Renames the fields of parameters for the wire, at every depth. */
export function toWire(value) {
    return rename(value, snakeName);
}
/**
 * Renames the fields of a value from the wire, at every depth. The values of the field keep are not
 * renamed either: `limits` is a map in the answer of system.info, and nowhere else.
 */
export function fromWire(value, keep) {
    return rename(value, camelName, keep);
}
const camelNames = new Map();
/** Every push has the same few names, so they are cached. The cache is bounded, so that a malicious server cannot fill the memory. */
export function camelName(name) {
    let camel = camelNames.get(name);
    if (camel === undefined) {
        camel = name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
        if (camelNames.size < 1000)
            camelNames.set(name, camel);
    }
    return camel;
}
/** The name of a nested field, such as policy.rules.0.tool. What follows a map is data. */
export function camelPath(path) {
    const names = path.split(".");
    const map = names.findIndex((name) => verbatim.has(name));
    return names.map((name, i) => (map < 0 || i <= map ? camelName(name) : name)).join(".");
}
function snakeName(name) {
    return name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
}
function rename(value, name, keep) {
    if (Array.isArray(value))
        return value.map((item) => rename(item, name, keep));
    if (typeof value !== "object" || value === null)
        return value;
    const renamed = {};
    for (const [key, item] of Object.entries(value)) {
        if (item === undefined || key === "__proto__")
            continue;
        // One of the two is the name on the wire.
        const data = key === keep || verbatim.has(key) || verbatim.has(name(key));
        renamed[name(key)] = data ? item : rename(item, name, keep);
    }
    return renamed;
}
