// The programs of the README are compiled, and run with a real daemon.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import test, { type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Trl } from "@trl-dev/trl";
import { binary, Daemon } from "./daemon.js";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const agent = resolve(process.env["TRL_TEST_AGENT"] ?? join(root, "../../build/fakeagent"));

/** The programs that the reader has, beside those of every machine. */
const programs = {
  make: 'echo "made $*"',
  npm: "echo added 3 packages; echo a warning >&2",
  server: 'echo listening on port 8080; while read -r line; do echo "did $line"; done; exec sleep 1000',
  jq: "sed 's/: /:/'",
};

interface Expected {
  /** What the README has for the reader to fill in. */
  replaced?: [string, string][];
  /** What the program prints, in this order. */
  prints: RegExp[];
  /** What somebody else does when the program has printed the first two of these. */
  meanwhile?: (trl: Trl) => Promise<unknown>;
  /** The program does not end by itself: it is stopped when it has printed all. */
  endless?: boolean;
}

/** One for each program of the README, in their order. */
function expected(dir: string, socket: string, url: string, token: string): Expected[] {
  const http: [string, string][] = [["https://trl.example", url], ["http://127.0.0.1:7330", url], ['"…"', JSON.stringify(token)]];
  return [
    { prints: [/^Linux|Darwin$/m, /^0 true false made test$/m, /Uint8Array|Buffer/, /added 3 packages/, /^exit 0$/m] },
    { replaced: [["/run/me/trl.sock", socket], ...http], prints: [/^$/] },
    { replaced: http, prints: [/sessions: \[/] },
    { replaced: [["./server", join(dir, "bin/server")]], prints: [/^output_match listening on port 8080$/m, /did reload/, /^\d+ exit$/m] },
    {
      prints: [/6 \* 7\n42\n/, /write to a new terminal of size/, /write /, /exit 3/, /0 {"a":1}\n/],
      meanwhile: async (trl) => {
        const [python] = (await trl.call("session.list", { state: "running" })).sessions.filter(({ kind }) => kind === "terminal");
        await (await trl.findTerminal(python!.sessionId)).input("raise SystemExit(3)", { keys: ["enter"] });
      },
    },
    {
      replaced: [["/src/app", dir], ["Which tests fail?", "ask Read /a; ask Bash rm -rf b; say Two tests."]],
      prints: [/^Read \/a$/m, /^Bash rm -rf b$/m, /Two tests\. completed/, /You said: And why\?/, /^user /m, /^tool_call Read$/m],
    },
    { prints: [/^x-\S+ 0$/m], endless: true }, // of the programs before
    { prints: [/^$/] },
  ];
}

/** Compiles the programs, and returns their files. */
async function compile(t: TestContext, blocks: string[], examples: Expected[]): Promise<string[]> {
  // Below the package, where its own name leads to itself.
  const dir = await mkdtemp(join(root, ".test/readme-"));
  t.after(() => rm(dir, { recursive: true }));
  for (const [i, block] of blocks.entries()) {
    let text = block;
    for (const [shown, real] of examples[i]?.replaced ?? []) text = text.replaceAll(shown, real);
    await writeFile(join(dir, `example${i}.ts`), text + "\nexport {};\n");
  }
  const options = { rootDir: ".", outDir: "out", declaration: false, noUnusedLocals: false };
  await writeFile(join(dir, "tsconfig.json"), JSON.stringify({ extends: "../../tsconfig.json", compilerOptions: options, include: ["*.ts"] }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const { stdout } = await promisify(execFile)(process.execPath, [tsc, "-p", dir]).catch((error: { stdout: string }) => error);
  assert.equal(stdout, "");
  return blocks.map((_, i) => join(dir, `out/example${i}.js`));
}

/** Returns what is missing in a text. */
function missing(text: string, parts: RegExp[]): RegExp | undefined {
  let rest = text;
  return parts.find((part) => {
    const at = part.exec(rest);
    if (at) rest = rest.slice(at.index + at[0].length);
    return !at;
  });
}

/** Runs a program to its end, or until it has printed all. */
async function run(t: TestContext, file: string, trl: Trl, env: NodeJS.ProcessEnv, want: Expected): Promise<void> {
  const child = spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "pipe"], signal: t.signal });
  let out = "";
  let errors = "";
  let others: Promise<unknown> | undefined;
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
    if (!missing(out, want.prints.slice(0, 2))) others ??= want.meanwhile?.(trl);
    if (want.endless && !missing(out, want.prints)) child.kill();
  });
  const [status] = await new Promise<[number | null]>((done, fail) => child.on("close", (code) => done([code])).on("error", fail));
  await others;
  const part = missing(out, want.prints);
  assert.equal(part, undefined, `${part} is missing in\n${out}\n${errors}`);
  if (!want.endless) assert.deepEqual([status, errors.replace("a warning\n", "")], [0, ""]);
}

test("the programs of the README work", async (t) => {
  const readme = await readFile(join(root, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map((match) => match[1]!);
  const home = await mkdtemp("/tmp/trl-readme-");
  t.after(() => rm(home, { recursive: true, force: true }));
  await mkdir(join(home, "bin"));
  for (const [name, commands] of Object.entries(programs)) {
    await writeFile(join(home, "bin", name), `#!/bin/sh\n${commands}\n`);
    await chmod(join(home, "bin", name), 0o755);
  }
  await symlink(agent, join(home, "bin/claude"));
  await symlink(binary, join(home, "bin/trl"));
  process.env["PATH"] = `${join(home, "bin")}:${process.env["PATH"]}`; // of the daemon too
  const { daemon, url, token } = await Daemon.startHTTP(t);
  const examples = expected(home, daemon.socket, url, token);
  assert.equal(blocks.length, examples.length, "each program of the README needs an entry in expected");
  const files = await compile(t, blocks, examples);
  const trl = await daemon.connect(t);
  // A daemon on stdio has a directory of its own.
  const env = { ...daemon.env, TRL_STATE_DIR: join(home, "state"), PATH: process.env["PATH"], TRL_SOCKET_PATH: daemon.socket };
  for (const [i, want] of examples.entries()) {
    await t.test(`program ${i + 1}`, (t) => run(t, files[i]!, trl, env, want));
  }
});
