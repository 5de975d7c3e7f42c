import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const imports = /(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g;

/** All modules that a file needs, by following its imports. */
async function needs(file: string, seen = new Set<string>()): Promise<Set<string>> {
  for (const [, name] of (await readFile(file, "utf8")).matchAll(imports)) {
    const target = name!.startsWith(".") ? resolve(dirname(file), name!) : name!;
    if (seen.has(target)) continue;
    seen.add(target);
    if (name!.startsWith(".")) await needs(target, seen);
  }
  return seen;
}

test("the browser's entry needs nothing of Node; no entry needs another package", async () => {
  const { exports, dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    exports: { ".": { browser: { default: string }; default: string }; "./http": { default: string }; "./websocket": { default: string } };
    dependencies?: object;
  };
  assert.equal(dependencies, undefined);
  for (const entry of [exports["."].browser.default, exports["./http"].default, exports["./websocket"].default]) {
    const outside = [...(await needs(join(root, entry)))].filter((name) => !name.startsWith("/"));
    assert.deepEqual(outside, []);
  }
  const outside = [...(await needs(join(root, exports["."].default)))].filter((name) => !name.startsWith("/"));
  assert.ok(outside.length > 0 && outside.every((name) => name.startsWith("node:")), String(outside));
});

test("the lock file names no host", async () => {
  const lock = await readFile(join(root, "package-lock.json"), "utf8");
  assert.doesNotMatch(lock, /https?:|"resolved"/);
});

test("what is data on the wire keeps its keys", async () => {
  const { verbatim } = (await import(join(root, "dist/names.js"))) as { verbatim: ReadonlySet<string> };
  const types = await readFile(join(root, "src/types.ts"), "utf8");
  const fields = [...types.matchAll(/^ +(\w+)\??: (?:Record<|unknown;)/gm)].map((match) => match[1]!);
  assert.deepEqual(new Set(fields), new Set([...verbatim, "limits"])); // limits is a map in system.info alone
});

test("names are turned there and back", async () => {
  const names = (await import(join(root, "dist/names.js"))) as { toWire(v: unknown): unknown; fromWire(v: unknown): unknown };
  const ours = { sessionId: "s", timeoutS: 1, env: { some_KEY: "a", camelCase: "b" }, execIds: ["x_y"], gone: undefined, until: "output_match" };
  const wire = { session_id: "s", timeout_s: 1, env: { some_KEY: "a", camelCase: "b" }, exec_ids: ["x_y"], until: "output_match" };
  assert.deepEqual(names.toWire(ours), wire);
  const { gone: _, ...back } = ours;
  assert.deepEqual(names.fromWire(wire), back);
  const result = { left_running: [{ max_rss_bytes: 1, details: { a_b: { c_d: 1 } } }], stdout_base64: null };
  const limited = { limits: { memoryBytes: 1 }, runtimeOptions: { nodeSelector: { "a-B_c": "x" } } };
  const limitedWire = { limits: { memory_bytes: 1 }, runtime_options: { node_selector: { "a-B_c": "x" } } };
  assert.deepEqual(names.toWire(limited), limitedWire);
  assert.deepEqual(names.fromWire(limitedWire), limited);
  assert.deepEqual(names.fromWire(result), { leftRunning: [{ maxRssBytes: 1, details: { a_b: { c_d: 1 } } }], stdoutBase64: null });
});
