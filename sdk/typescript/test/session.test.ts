import assert from "node:assert/strict";
import test from "node:test";
import { connect, ConnectionLostError, TrlError } from "@trl-dev/trl";
import { Daemon, eventually } from "./daemon.js";

test("a session keeps its state between commands", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session({ shell: "bash", workingDir: "/tmp", env: { some_Key: "v", OTHER_KEY: "w" }, timeoutS: 50, tags: ["a_b"] });
  assert.equal(s.created.workingDir, "/tmp");
  assert.equal(s.created.timeoutS, 50);
  assert.deepEqual(s.created.tags, ["a_b"]);
  await s.run("cd /usr; export X=1");
  const r = await s.run('echo "$PWD $X $some_Key $OTHER_KEY"; echo err >&2; exit 3', { env: { lower_case: "1" }, timeoutS: 60 });
  assert.equal(r.stdout, "/usr 1 v w\n");
  assert.equal(r.stderr, "err\n");
  assert.equal(r.exitCode, 3);
  assert.equal(r.stdoutBytes, 11);
  assert.equal(r.shellRestarted, true);
  const info = await s.info();
  assert.deepEqual(info.envKeys.sort(), ["OTHER_KEY", "some_Key"]);
  assert.equal((await trl.findSession(s.id)).id, s.id);
  assert.equal((await s.execs()).length, 2);
  assert.equal((await s.destroy({ force: true })).state, "terminated");
});

test("a list is a program beside the shell", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session({ shell: "bash" });
  const busy = await s.start("X=1; sleep 100");
  const r = await s.run(["sh", "-c", 'cat; echo "[$X] $1"; echo err >&2; exit 4', "sh", "a  b"], { stdin: "in ", merge: true });
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], ["in [] a  b\nerr\n", "", 4]);
  assert.equal((await s.run(["stty", "size"], { pty: { cols: 91, rows: 17 } })).stdout, "17 91\r\n");
  const x = await s.start(["sleep", "100"]);
  const { pid } = await x.info();
  assert.deepEqual((await x.signal("INT")).processes.map((p) => p.pid), [pid]);
  assert.equal((await x.info()).argv?.[0], "sleep");
  const tty = await s.start(["sh", "-c", "read a; stty size"], { pty: { cols: 80, rows: 24 } });
  await tty.resize(50, 5);
  await tty.input("\n");
  await tty.wait();
  assert.equal((await tty.output()).data, "\r\n5 50\r\n");
  await busy.cancel("KILL");
  const bare = await trl.session({ shell: "none" });
  assert.equal((await bare.run(["echo", "$HOME"])).stdout, "$HOME\n");
});

test("a command of another type is refused by its name", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session();
  const error = { name: "TypeError", message: "command: must be a string or a list of strings" };
  for (const wrong of [5, undefined, ["ls", 5]] as never[]) {
    await assert.rejects(trl.run(wrong), error);
    await assert.rejects(s.run(wrong), error);
    await assert.rejects(s.start(wrong), error);
    assert.throws(() => s.stream(wrong), error);
  }
  const stdin = { name: "TypeError", message: "stdin: must be a string or a Uint8Array" };
  await assert.rejects(s.run("cat", { stdin: 5 as never }), stdin);
});

test("a wrong option is told in the words of the SDK", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session();
  const refused = async (done: Promise<unknown>, message: string) => assert.rejects(done, { name: "InvalidParamsError", code: "INVALID_PARAMS", message });
  await refused(trl.run("true", { timeout: 3 } as object), 'params.timeout: unknown field; did you mean "timeoutS"?');
  await refused(s.run("true", { timeOut: 3 } as object), 'params.timeOut: unknown field; did you mean "timeoutS"?');
  await refused(s.run("true", { cwd: "/tmp" } as object), 'params.cwd: unknown field; did you mean "workingDir"?');
  await refused(trl.session({ workingDIr: "/tmp" } as object), 'params.workingDIr: unknown field; did you mean "workingDir"?');
  await refused(trl.session({ isolation: { readOly: ["/"] } } as object), 'params.isolation.readOly: unknown field; did you mean "readOnly"?');
  await refused(s.run("true", { timeoutS: "3" as never }), "params.timeoutS: must be a number, not string");
  await refused(s.run("true", { env: { some_key: 3 as never } }), "params.env.some_key: must be a string, not number");
  const { details } = (await s.run("true", { timeOut: 3 } as object).catch((error: unknown) => error)) as TrlError;
  assert.deepEqual(details, { field: "time_out", suggestion: "timeout_s" }, "details are named as on the wire");
});

test("a session gets another name and other tags", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session({ name: "old", tags: ["a"] });
  assert.equal((await s.set({ name: "new" })).name, "new");
  assert.deepEqual((await s.set({ tags: ["b"] })).tags, ["b"]);
  assert.equal((await trl.findSession("new")).id, s.id);
});

test("every method can be called by its name", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const { version } = await trl.call("system.ping");
  assert.ok(version);
  const info = await trl.call("system.info", {});
  assert.ok(info.limits["max_sessions"]! > 0, "keys of maps are left alone");
  assert.deepEqual(await trl.call("session.list", { state: "idle" }), { sessions: [] });
});

test("output is exact", async (t) => {
  const s = await (await (await Daemon.start(t)).connect(t)).session({ shell: "bash" });
  const r = await s.run("printf '\\xef\\xbb\\xbfa\\xff\\x00'; printf 'g\\xc3\\xbc' >&2");
  assert.deepEqual([...r.stdoutData], [0xef, 0xbb, 0xbf, 0x61, 0xff, 0]);
  assert.deepEqual([...r.stderrData], [0x67, 0xc3, 0xbc]);
  assert.equal(r.stderr, "gü");
  const text = "äöü🙂".repeat(100_000); // 1 MB and more in one line
  const echoed = await s.run("cat", { stdin: text, maxOutputBytes: 4_000_000 });
  assert.equal(echoed.stdout, text);
  assert.equal(echoed.stdoutTruncated, false);
});

test("stdin may be bytes, or the word that means something else on the wire", async (t) => {
  const s = await (await (await Daemon.start(t)).connect(t)).session();
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  assert.deepEqual((await s.run("cat", { stdin: bytes })).stdoutData, bytes);
  assert.equal((await s.run("cat", { stdin: "" })).stdout, "");
  assert.equal((await s.run("cat", { stdin: "open" })).stdout, "open");
  const x = await s.start("cat", { stdin: "open" });
  await x.wait();
  assert.equal((await x.output()).data, "open");
});

test("a timeout is a result, a refusal is an error", async (t) => {
  const daemon = await Daemon.start(t, "--kill-grace-s", "0.1");
  const trl = await daemon.connect(t);
  const s = await trl.session();
  const r = await s.run("echo before; sleep 60", { timeoutS: 0.2 });
  assert.deepEqual([r.timedOut, r.exitCode, r.stdout], [true, 124, "before\n"]);
  await assert.rejects(trl.findSession("s-none"), (error: unknown) => {
    assert.ok(error instanceof TrlError);
    assert.equal(error.code, "SESSION_NOT_FOUND");
    assert.match(error.message, /s-none/);
    return true;
  });
  await assert.rejects(s.run("true", { timeoutS: -1 }), (error: unknown) => {
    assert.ok(error instanceof TrlError);
    assert.equal(error.code, "INVALID_PARAMS");
    assert.deepEqual(error.details, { field: "timeout_s" });
    return true;
  });
  await assert.rejects(connect({ socket: daemon.socket + "x" }), (error: unknown) => {
    assert.ok(error instanceof ConnectionLostError);
    assert.deepEqual([error.code, error.sent], ["RUNTIME_UNAVAILABLE", false]);
    return true;
  });
});

test("a command in the background: wait, input, output, cancel", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session();
  const x = await s.start("echo listening; while read -r line; do echo \"got $line\"; done; echo bye", { stdinOpen: true });
  const ready = await x.wait({ outputMatch: "listen", timeoutS: 30 });
  assert.equal(ready?.reason, "output_match");
  assert.equal(ready?.match?.text, "listening");
  assert.equal(await x.wait({ timeoutS: 0 }), null);
  assert.equal(await x.wait({ timeoutMs: 0 }), null); // deprecated
  const first = await x.input("one\n", { writeId: "w1" });
  assert.deepEqual([first.stdinBytes, first.repeated], [4, false]);
  assert.equal((await x.input("one\n", { writeId: "w1" })).repeated, true);
  await x.input(new TextEncoder().encode("two\n"));
  assert.equal((await x.closeInput()).closed, true);
  assert.equal((await x.wait())?.outcome?.exitCode, 0);
  assert.equal((await x.output()).data, "listening\ngot one\ngot two\nbye\n");
  assert.equal((await x.output({ tail: 4 })).data, "bye\n");
  assert.deepEqual((await x.output({ grep: "got" })).lines?.map((line) => line.text), ["got one", "got two"]);
  assert.deepEqual((await trl.exec(x.id).output({ offset: 10, limit: 3 })).bytes, new TextEncoder().encode("got"));
  await assert.rejects(x.input("late\n"), TrlError);

  const sleeper = await s.start("sleep 1000");
  assert.equal((await sleeper.cancel("KILL")).outcome?.cancelled, true);
  const other = await s.start("sleep 1000");
  assert.equal((await s.cancel()).execId, other.id);
  assert.equal((await other.info()).outcome?.exitCode, 130);
});

test("an aborted run cancels its command, unless it is detached", async (t) => {
  const trl = await (await Daemon.start(t, "--kill-grace-s", "0.1")).connect(t);
  const s = await trl.session();
  for (const detach of [false, true]) {
    const abort = new AbortController();
    const running = s.run("echo on; sleep 1000", { detach, signal: abort.signal });
    const exec = await eventually(async () => (await s.execs()).find((x) => x.state === "running" && x.stdoutBytes > 0));
    abort.abort(new Error("enough"));
    await assert.rejects(running, /enough/);
    if (detach) assert.equal((await trl.exec(exec.execId).info()).state, "running");
    else assert.equal((await trl.exec(exec.execId).wait())?.outcome?.cancelled, true);
  }
  await assert.rejects(s.info({ signal: AbortSignal.abort() }), { name: "AbortError" });
});

test("sessions and clients are let go at the end of a block", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  let id: string;
  {
    await using mine = await connect({ socket: daemon.socket });
    await using s = await mine.session();
    id = s.id;
    assert.equal((await s.run("echo hi")).stdout, "hi\n");
  }
  assert.equal((await (await trl.findSession(id)).info()).state, "terminated");
});

test("a closed client says so", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session();
  await trl.close();
  await assert.rejects(s.run("true"), ConnectionLostError);
  await assert.rejects(s.stream("true").next(), ConnectionLostError);
});
