import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { promisify } from "node:util";
import {
  CommandFailedError,
  connect,
  ConnectionLostError,
  InvalidParamsError,
  run,
  SessionNotFoundError,
  ShellNotFoundError,
  TrlError,
} from "@trl-dev/trl";
import { binary, Daemon, eventually } from "./daemon.js";

/** Makes this process one of a user whose daemon does not run. Tests of a file run one after the other. */
function nobody(t: TestContext): string {
  const root = mkdtempSync("/tmp/trl-ts-");
  const programs = join(root, "bin");
  mkdirSync(programs);
  symlinkSync(binary, join(programs, "trl"));
  const env: Record<string, string> = {
    PATH: `${programs}:${process.env["PATH"]}`,
    HOME: root,
    TRL_SOCKET_PATH: join(root, "s"),
    TRL_STATE_DIR: join(root, "state"),
    TRL_RUNTIME_DIR: join(root, "run"),
    TRL_CONFIG: "/dev/null",
  };
  const before = { ...process.env };
  Object.assign(process.env, env);
  t.after(() => {
    execFileSync(binary, ["stop"], { env });
    for (const key of Object.keys(env)) {
      if (before[key] === undefined) delete process.env[key];
      else process.env[key] = before[key];
    }
    rmSync(root, { recursive: true, force: true });
  });
  return root;
}

test("a daemon is started when none runs", async (t) => {
  const root = nobody(t);
  await assert.rejects(connect({ start: false }), ConnectionLostError);
  await assert.rejects(connect({ socket: join(root, "s") }), ConnectionLostError);
  const [a, b] = await Promise.all([connect(), connect()]);
  assert.equal((await a.run("echo hello")).stdout, "hello\n");
  const { pid } = await b.call("system.info");
  assert.equal((await a.call("system.info")).pid, pid);
  process.kill(pid, "SIGKILL");
  assert.notEqual((await a.call("system.info")).pid, pid, "one that was killed is started again");
  await Promise.all([a.close(), b.close()]);
});

test("only a new call replaces a daemon that was stopped", async (t) => {
  nobody(t);
  const runs = async () => {
    const other = await connect({ start: false }).catch(() => undefined);
    await other?.close();
    return other !== undefined;
  };
  await using trl = await connect();
  const session = await trl.session({ ephemeral: true });
  const waiting = (await session.start("sleep 1000")).wait().catch((error: unknown) => error);
  const events = trl.events({ afterSeq: 0 });
  await events.next();
  const reading = (async () => {
    for await (const _ of events);
  })().catch(() => undefined);
  const { pid } = await trl.call("system.info");

  await promisify(execFile)(binary, ["stop"]);
  for (let i = 0; i < 30; i++) {
    assert.equal(await runs(), false, "neither the stream, the wait nor the ephemeral session starts one");
    await new Promise((wake) => setTimeout(wake, 100));
  }
  await waiting;
  const next = await trl.call("system.info");
  assert.notEqual(next.pid, pid);

  process.kill(next.pid, "SIGKILL");
  await eventually(runs); // the stream has started one again
  events.close();
  await reading;
});

test("what cannot be started says why", async (t) => {
  nobody(t);
  const path = process.env["PATH"];
  process.env["PATH"] = "/nowhere";
  try {
    await assert.rejects(connect(), /trl that starts one is not on the PATH/);
  } finally {
    process.env["PATH"] = path;
  }
  const state = process.env["TRL_STATE_DIR"];
  process.env["TRL_STATE_DIR"] = "/proc/nowhere";
  try {
    await assert.rejects(connect(), /none can be started: .*\/proc\/nowhere/);
  } finally {
    process.env["TRL_STATE_DIR"] = state;
  }
});

test("one command needs one line", async (t) => {
  nobody(t);
  const r = await run('cat; echo "$A $PWD" >&2; exit 4', { stdin: "in", env: { A: "1" }, workingDir: "/", shell: "/bin/sh", timeoutS: 60 });
  assert.deepEqual([r.stdout, r.stderr, r.exitCode, r.ok], ["in", "1 /\n", 4, false]);
  assert.throws(() => r.check(), (error) => error instanceof CommandFailedError && error.result === r && error.message === "command exit code 4: 1 /");
  assert.equal((await run("true")).check().ok, true);
  const trl = await connect();
  assert.deepEqual((await trl.call("session.list")).sessions, []);
  await trl.close();
});

test("each error has a class", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await assert.rejects(trl.findSession("s-nowhere"), SessionNotFoundError);
  await assert.rejects(trl.session({ shell: "/nowhere" }), ShellNotFoundError);
  await assert.rejects(trl.session({ workingDir: "relative/nowhere" }), InvalidParamsError);
  assert.equal(TrlError.from({ code: "NEWER" as never, message: "m" }).name, "TrlError");
  assert.equal(TrlError.from({ code: "CONFLICT", message: "m" }).name, "ConflictError");
});

test("an empty screen is an empty text", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const term = await trl.terminal({ command: ["sleep", "60"] });
  assert.equal((await term.screen()).text.trim(), "");
  await term.destroy({ force: true });
});
