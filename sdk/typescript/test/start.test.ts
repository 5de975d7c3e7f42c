import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { promisify } from "node:util";
import {
  CommandFailedError,
  connect,
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
  const socket = join(root, "s");
  const forbidden = { name: "ConnectionLostError", code: "RUNTIME_UNAVAILABLE", sent: false, message: `no daemon runs at ${socket}, and start: false forbids starting one` };
  await assert.rejects(connect({ start: false }), forbidden);
  await assert.rejects(connect({ socket, start: false }), forbidden);
  await assert.rejects(connect({ socket }), { name: "ConnectionLostError", message: /ENOENT/ });
  const [a, b] = await Promise.all([connect(), connect()]);
  assert.equal((await a.run("echo hello")).stdout, "hello\n");
  const { pid } = await b.call("system.info");
  assert.equal((await a.call("system.info")).pid, pid);
  process.kill(pid, "SIGKILL");
  assert.notEqual((await a.call("system.info")).pid, pid, "one that was killed is started again");
  await Promise.all([a.close(), b.close()]);
});

const stop = () => promisify(execFile)(binary, ["stop"]);

async function runs(): Promise<boolean> {
  const other = await connect({ start: false }).catch(() => undefined);
  await other?.close();
  return other !== undefined;
}

async function staysStopped(because: string): Promise<void> {
  for (let i = 0; i < 30; i++) {
    assert.equal(await runs(), false, because);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

test("leaving a block does not replace a daemon that was stopped", async (t) => {
  const root = nobody(t);
  {
    await using trl = await connect();
    {
      await using session = await trl.session();
      await session.run("true");
      await stop();
    }
    assert.equal(await runs(), false, "the session ended with the daemon");
  }
  {
    await using trl = await connect();
    const running = trl.run("touch $HOME/begun; sleep 1000").catch((error: unknown) => assert.ok(error instanceof TrlError)); // or its result: cancelled
    await eventually(async () => existsSync(join(root, "begun")));
    await stop();
    await running;
    assert.equal(await runs(), false, "the session of the command ended with the daemon");
  }
  await using trl = await connect();
  {
    await using _ = await trl.session();
    process.kill((await trl.call("system.info")).pid, "SIGKILL");
  }
  assert.deepEqual((await trl.call("session.list")).sessions, [], "after a crash, one is started to end the session");
});

test("a session that a block left is not owned again", async (t) => {
  nobody(t);
  process.env["TRL_KEEP_SESSIONS"] = "true";
  t.after(() => delete process.env["TRL_KEEP_SESSIONS"]);
  await using trl = await connect();
  {
    await using _ = await trl.session({ ephemeral: true });
    await stop();
  }
  const sessions = async () => (await trl.call("session.list")).sessions;
  assert.equal((await sessions()).length, 1, "a new call starts a daemon, which has kept the session");
  await eventually(async () => (await sessions()).length === 0); // it ends ten seconds later, without an owner
});

test("a new call replaces a daemon that is being stopped", async (t) => {
  const root = nobody(t);
  await (await connect()).close();
  await stop();
  const socket = join(root, "s");
  const server = createServer((connection) => {
    connection.on("error", () => {}).on("data", (line) => {
      const { id, method } = JSON.parse(String(line)) as { id: string; method: string };
      if (method === "system.ping") return void connection.write(JSON.stringify({ id, ok: true, data: {} }) + "\n");
      rmSync(socket);
      connection.destroy();
    });
  }).listen(socket);
  t.after(() => server.close());
  await once(server, "listening");
  await using trl = await connect();
  assert.ok((await trl.call("system.info")).pid);
});

test("a wait does not replace a daemon that was stopped and kept its sessions", async (t) => {
  nobody(t);
  process.env["TRL_KEEP_SESSIONS"] = "true";
  t.after(() => delete process.env["TRL_KEEP_SESSIONS"]);
  await using trl = await connect();
  const session = await trl.session();
  const x = await session.start("read -r line", { stdinOpen: true });
  const waiting = x.wait();
  await trl.call("system.ping"); // on the same connection, so the daemon has the request before
  await stop();
  await staysStopped("the wait does not start one");
  await x.input("go\n"); // a new call starts one, and the wait goes on
  assert.equal((await waiting)?.reason, "exit");
  await session.destroy();
});

test("a program ends although its ephemeral session waits for a daemon that was stopped", async (t) => {
  nobody(t);
  const program = `
    import { execFile } from "node:child_process";
    import { promisify } from "node:util";
    import { connect } from "@trl-dev/trl";
    const trl = await connect({ reconnect: { timeoutS: 100_000 } });
    await trl.session({ ephemeral: true });
    await promisify(execFile)("trl", ["stop"]);
    console.log("done");`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], { timeout: 60_000 });
  assert.equal(stdout, "done\n");
});

test("only a new call replaces a daemon that was stopped", async (t) => {
  nobody(t);
  await using trl = await connect();
  const session = await trl.session({ ephemeral: true });
  const waiting = (await session.start("sleep 1000")).wait().catch((error: unknown) => error);
  const events = trl.events({ afterSeq: 0 });
  await events.next();
  const reading = (async () => {
    for await (const _ of events);
  })().catch(() => undefined);
  const { pid } = await trl.call("system.info");

  await stop();
  await staysStopped("neither the stream, the wait nor the ephemeral session starts one");
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
