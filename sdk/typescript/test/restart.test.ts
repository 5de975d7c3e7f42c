import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { ConnectionLostError, type Exit, type StreamItem } from "@trl-dev/trl";
import { Daemon, eventually } from "./daemon.js";

/** Prints text, bytes that are no text, and characters in two halves, on both streams, for about two seconds. */
const chatter = `
i=0; while [ $i -lt 200 ]; do
  i=$((i+1)); printf 'line %d gr\\303' $i; printf 'e%d\\n' $i >&2; sleep 0.01; printf '\\274\\303\\237e\\377\\n'
done; exit 5`;

function expected(): { stdout: Buffer; stderr: Buffer } {
  const lines = Array.from({ length: 200 }, (_, i) => [Buffer.from(`line ${i + 1} grüße`), Buffer.of(0xff, 0x0a)]).flat();
  return { stdout: Buffer.concat(lines), stderr: Buffer.from(Array.from({ length: 200 }, (_, i) => `e${i + 1}\n`).join("")) };
}

for (const kind of ["killed", "told to keep its sessions", "upgraded"] as const) {
  test(`a stream outlives a daemon that is ${kind}, byte for byte`, async (t) => {
    const daemon = await Daemon.start(t, ...(kind === "told to keep its sessions" ? ["--keep-sessions"] : []));
    const trl = await daemon.connect(t);
    const s = await trl.session();
    const got = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const next = { stdout: 0, stderr: 0 };
    let exit: Exit | undefined;
    let lines = 0;
    let restarts = Promise.resolve();
    for await (const item of s.stream(chatter)) {
      assert.notEqual(item.type, "gap");
      if (item.type === "exit") exit = item;
      if (item.type !== "stdout" && item.type !== "stderr") continue;
      assert.equal(item.offset, next[item.type]);
      next[item.type] += item.bytes.length;
      got[item.type].push(item.bytes);
      if (item.type === "stderr" && ++lines % 40 === 20) {
        await restarts;
        if (kind === "upgraded") {
          await trl.call("system.upgrade");
          continue;
        }
        await (kind === "killed" ? daemon.kill() : daemon.terminate());
        restarts = daemon.restart(); // the stream waits for it
      }
    }
    await restarts;
    assert.deepEqual({ stdout: Buffer.concat(got.stdout), stderr: Buffer.concat(got.stderr) }, expected());
    assert.equal(exit?.exitCode, 5);
    await s.destroy();
  });
}

test("calls wait for a daemon that comes back", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const s = await trl.session();
  await s.run("X=kept");
  const x = await s.start("read -r line; echo \"got $line\"; sleep 0.5; exit 6", { stdinOpen: true });
  await daemon.kill();
  const written = x.input("once\n");
  const waited = x.wait();
  const info = s.info();
  await daemon.restart();
  assert.equal((await info).sessionId, s.id);
  assert.equal((await written).stdinBytes, 5);
  assert.equal((await waited)?.outcome?.exitCode, 6);
  assert.equal((await x.output()).data, "got once\n");
  assert.equal((await s.run("echo $X")).stdout, "kept\n");
});

test("a wait that was under way is asked again", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const x = await (await trl.session()).start("read -r line; exit 3", { stdinOpen: true });
  const waited = x.wait();
  await eventually(async () => (await x.info()).state === "running");
  await daemon.kill();
  await daemon.restart();
  await x.closeInput();
  assert.equal((await waited)?.outcome?.exitCode, 3);
});

test("a run that was under way goes on, and is run once", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const s = await trl.session();
  const file = join(daemon.stateDir, "ran");
  const running = s.run(`echo ran >>${file}; sleep 1; echo done`);
  await eventually(async () => (await s.execs()).some((exec) => exec.state === "running"));
  await daemon.kill();
  await daemon.restart();
  assert.equal((await running).stdout, "done\n");
  assert.equal(await readFile(file, "utf8"), "ran\n");
  assert.equal((await s.execs()).length, 1);
});

test("an ephemeral session outlives the daemon, and ends with its client", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const s = await trl.session({ ephemeral: true });
  await s.run("X=kept");
  for (let i = 0; i < 2; i++) {
    await daemon.kill();
    await daemon.restart();
  }
  // Without its owner it would end ten seconds after the restart. Nothing is asked for meanwhile.
  await new Promise((wake) => setTimeout(wake, 12_000));
  assert.equal((await s.run("echo $X")).stdout, "kept\n");
  const other = await daemon.connect(t);
  await trl.close();
  await eventually(async () => (await other.call("session.info", { sessionId: s.id })).state === "terminated");
});

test("a run of its own ends with its client", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const lost = assert.rejects(trl.run("sleep 1000"), ConnectionLostError);
  const other = await daemon.connect(t);
  await eventually(async () => (await other.call("session.list")).sessions.some((s) => s.state === "running"));
  await trl.close();
  await lost;
  await eventually(async () => (await other.call("session.list")).sessions.every((s) => s.state === "terminated"));
});

test("what a daemon does not create before it is upgraded, the next one creates", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const agent = resolve(process.env["TRL_TEST_AGENT"] ?? resolve(dirname(fileURLToPath(import.meta.url)), "../../../build/fakeagent"));
  /** A program that does not answer when it is started for the first time. */
  const hangsOnce = async (name: string, program: string) => {
    const path = join(daemon.stateDir, name);
    const starts = () => readFile(path + ".starts", "utf8").catch(() => "");
    const script = `#!/bin/sh\necho x >>${path}.starts\n[ "$(cat ${path}.starts)" = x ] && exec sleep 1000\nexec ${program} "$@"\n`;
    await writeFile(path, script, { mode: 0o700 });
    return { path, starts };
  };
  const shell = await hangsOnce("bash", "bash");
  const program = await hangsOnce("agent", agent);
  const session = trl.session({ shell: shell.path, name: "one" });
  const dialogue = trl.dialogue({ agent: "claude", argv: [program.path], workingDir: "/tmp", name: "two", prompt: "say hello" });
  await eventually(async () => (await shell.starts()) === "x\n" && (await program.starts()) === "x\n");
  await trl.call("system.upgrade");
  const s = await session;
  assert.equal((await s.run("echo alive")).stdout, "alive\n");
  const d = await dialogue;
  await eventually(async () => (await d.info()).turns === 1);
  assert.deepEqual([await shell.starts(), await program.starts()], ["x\nx\n", "x\nx\n"]);
  assert.equal((await trl.call("dialogue.list")).dialogues.length, 1);
  await d.terminate();
});

test("events go on after a restart", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const s = await trl.session();
  const events = trl.events({ afterSeq: 0, types: ["exec.closed"] });
  const seen: string[] = [];
  for (let i = 0; i < 3; i++) {
    const x = await s.start("true");
    const { value } = await events.next();
    assert.ok(value && value.type === "exec.closed");
    assert.equal(value.execId, x.id);
    seen.push(x.id);
    await daemon.kill();
    await daemon.restart();
  }
  assert.equal(new Set(seen).size, 3);
  events.close();
});

test("a daemon that does not come back is given up", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t, { reconnect: { timeoutS: 0.2 } });
  const s = await trl.session();
  const stream = s.stream("echo a; sleep 1000");
  const { value } = await stream.next();
  await daemon.kill();
  await assert.rejects(stream.next(), (error: unknown) => {
    assert.ok(error instanceof ConnectionLostError);
    assert.equal(error.details["after_seq"], (value as StreamItem).seq);
    return true;
  });
  await assert.rejects(s.info(), (error: unknown) => error instanceof ConnectionLostError && !error.sent);
});
