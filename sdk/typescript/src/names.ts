/** The name in TypeScript of a field on the wire: `exit_code` is `exitCode`. */
export type CamelName<S extends string> = S extends `${infer Head}_${infer Rest}` ? `${Head}${Capitalize<CamelName<Rest>>}` : S;

/** A type of the wire with its names in TypeScript. Maps, such as `env`, keep their keys: these are data. */
export type Camel<T> = T extends readonly (infer E)[]
  ? Camel<E>[]
  : T extends object
    ? string extends keyof T
      ? T
      : { [K in keyof T as K extends string ? CamelName<K> : K]: Camel<T[K]> }
    : T;

/** The fields whose values must not be renamed: maps whose keys are data, and values that come from an agent or its tools. */
export const verbatim: ReadonlySet<string> = new Set(["env", "labels", "node_selector", "details", "answers", "input", "effective_input", "structured", "data", "cut", "transports"]);

/** Renames the fields of parameters for the wire, at every depth. */
export function toWire(value: unknown): unknown {
  return rename(value, snakeName);
}

/**
 * Renames the fields of a value from the wire, at every depth. The values of the field keep are not
 * renamed either: `limits` is a map in the answer of system.info, and nowhere else.
 */
export function fromWire<T>(value: T, keep?: string): Camel<T> {
  return rename(value, camelName, keep) as Camel<T>;
}

const camelNames = new Map<string, string>();

/** Every push has the same few names, so they are cached. The cache is bounded, so that a malicious server cannot fill the memory. */
export function camelName(name: string): string {
  let camel = camelNames.get(name);
  if (camel === undefined) {
    camel = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
    if (camelNames.size < 1000) camelNames.set(name, camel);
  }
  return camel;
}

/** The name of a nested field, such as policy.rules.0.tool. What follows a map is data. */
export function camelPath(path: string): string {
  const names = path.split(".");
  const map = names.findIndex((name) => verbatim.has(name));
  return names.map((name, i) => (map < 0 || i <= map ? camelName(name) : name)).join(".");
}

function snakeName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
}

function rename(value: unknown, name: (key: string) => string, keep?: string): unknown {
  if (Array.isArray(value)) return value.map((item) => rename(item, name, keep));
  if (typeof value !== "object" || value === null) return value;
  const renamed: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined || key === "__proto__") continue;
    // One of the two is the name on the wire.
    const data = key === keep || verbatim.has(key) || verbatim.has(name(key));
    renamed[name(key)] = data ? item : rename(item, name, keep);
  }
  return renamed;
}
