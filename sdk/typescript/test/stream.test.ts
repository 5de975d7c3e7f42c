import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { TrlError, type TrlEvent } from "@trl-dev/trl";
import { Daemon, eventually } from "./daemon.js";
import { collect, text } from "./items.js";

/** Keeps everything, so that a reader that is away for a while misses nothing. */
const keepAll = ["--output-bytes", "134217728", "--session-output-bytes", "134217728"];

test("output comes as it is printed, then the exit", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session({ shell: "bash" });
  const stream = s.stream("echo one; read -r; echo two >&2; exit 7", { stdinOpen: true });
  const { value: first } = await stream.next();
  assert.ok(first?.type === "stdout");
  assert.deepEqual([first.data, first.offset, first.bytes], ["one\n", 0, new TextEncoder().encode("one\n")]);
  await trl.exec(await stream.execId()).input("\n");
  const items = await collect(stream);
  assert.deepEqual(items.map((item) => item.type), ["stderr", "exit"]);
  const exit = items.at(-1);
  assert.ok(exit?.type === "exit");
  assert.deepEqual([exit.exitCode, exit.stdoutBytes, exit.stderrBytes, exit.timedOut], [7, 4, 4, false]);
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
});

test("a stream can be read again, by number, by offset, one side of it", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session({ shell: "bash" });
  const first = s.stream("for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done");
  const all = await collect(first);
  const x = trl.exec(await first.execId());
  assert.equal(text(await collect(x.stream())), text(all));
  assert.equal(text(await collect(x.stream({ stream: "stderr" }))), text(all.filter((item) => item.type !== "stdout")));
  assert.equal(text(await collect(x.stream({ fromOffset: 15, stream: "stdout" }))), "out4\nout5\n");
  for (const [i, item] of all.entries()) {
    assert.equal(text(await collect(x.stream({ afterSeq: item.seq }))), text(all.slice(i + 1)));
  }
});

test("a refusal is thrown by the first next", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  await assert.rejects(trl.exec("x-none-1").stream().next(), { code: "EXEC_NOT_FOUND" });
  const s = await trl.session();
  await s.destroy();
  await assert.rejects(collect(s.stream("true")), TrlError);
});

test("break lets the reader go and the command go on; detach false ends it", async (t) => {
  const trl = await (await Daemon.start(t, "--kill-grace-s", "0.1")).connect(t);
  const s = await trl.session();
  const idle = (await trl.call("system.stats")).connections;
  for (const detach of [true, false]) {
    const stream = s.stream("while :; do echo y; sleep 0.01; done", { detach });
    for await (const item of stream) if (item.seq > 3) break;
    await eventually(async () => (await trl.call("system.stats")).connections === idle);
    const x = trl.exec(await stream.execId());
    if (detach) {
      const { lastSeq } = await x.info();
      await eventually(async () => (await x.info()).lastSeq > lastSeq);
      await x.cancel();
    }
    assert.equal((await x.wait())?.outcome?.cancelled, true);
  }
});

test("a signal ends a stream, before it begins, while it waits, and while nobody looks", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const s = await trl.session();
  await assert.rejects(s.stream("echo never", { signal: AbortSignal.abort(new Error("no")) }).next(), /no/);
  assert.deepEqual(await s.execs(), []);

  const idle = (await trl.call("system.stats")).connections;
  const abort = new AbortController();
  const stream = s.stream("echo a; sleep 1000", { signal: abort.signal });
  assert.equal((await stream.next()).done, false);
  const waiting = stream.next();
  abort.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  assert.equal((await stream.next()).done, true);
  const x = trl.exec(await stream.execId());
  assert.equal((await x.info()).state, "running");

  const second = new AbortController();
  const again = x.stream({ signal: second.signal });
  await again.next();
  second.abort();
  await eventually(async () => (await trl.call("system.stats")).connections === idle);
  await assert.rejects(again.next(), { name: "AbortError" });

  await using third = x.stream();
  await third.next();
  const last = third.next();
  third.close();
  assert.equal((await last).done, true);
});

test("large binary output arrives byte for byte, and exec.run agrees", async (t) => {
  const trl = await (await Daemon.start(t, ...keepAll)).connect(t);
  const s = await trl.session();
  const hash = createHash("sha256");
  let length = 0;
  const stream = s.stream("head -c 30000000 /dev/urandom | tee data; cat data >&2; sha256sum <data >&2");
  let stderr: Uint8Array[] = [];
  for await (const item of stream) {
    if (item.type === "stdout") {
      hash.update(item.bytes);
      assert.equal(item.offset, length);
      assert.ok(Object.getOwnPropertyDescriptor(item, "data")?.get, "it came as bytes");
      length += item.bytes.length;
    } else if (item.type === "stderr") {
      stderr.push(item.bytes);
    } else assert.equal(item.type, "exit");
  }
  assert.equal(length, 30_000_000);
  const err = Buffer.concat(stderr);
  const sum = hash.digest("hex");
  assert.equal(err.subarray(30_000_000).toString(), `${sum}  -\n`);
  assert.equal(createHash("sha256").update(err.subarray(0, 30_000_000)).digest("hex"), sum);
  const run = await s.run("head -c 300000 data", { maxOutputBytes: 300_000 });
  assert.deepEqual(Buffer.from(run.stdoutData), err.subarray(0, 300_000));
});

test("fifty streams at once", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const sessions = await Promise.all(Array.from({ length: 10 }, () => trl.session()));
  const execs = await Promise.all(sessions.map((s, i) => s.start(`seq ${i} 5000; sleep 0.2; seq 3`)));
  const readers = Array.from({ length: 50 }, (_, i) => collect(execs[i % 10]!.stream()));
  for (const [i, items] of (await Promise.all(readers)).entries()) {
    const from = i % 10;
    const want = Array.from({ length: 5001 - from }, (_, n) => `${n + from}\n`).join("") + "1\n2\n3\n";
    assert.equal(text(items), want);
  }
});

test("a slow reader sees a gap, not a stall", async (t) => {
  const trl = await (await Daemon.start(t, "--output-bytes", "65536")).connect(t);
  const s = await trl.session();
  const x = await s.start("head -c 5000000 /dev/zero | tr '\\0' x");
  await x.wait();
  let next = 0;
  let gone = 0;
  for await (const item of x.stream()) {
    if (item.type === "stdout") {
      assert.equal(item.offset, next);
      next += item.bytes.length;
    } else if (item.type === "gap") {
      assert.equal(item.from, next);
      gone += item.to - item.from;
      next = item.to;
    }
  }
  assert.equal(next, 5_000_000);
  assert.ok(gone > 0);
});

test("a slow reader gets everything, because the command waits for it", async (t) => {
  const trl = await (await Daemon.start(t, "--output-bytes", "65536")).connect(t);
  const s = await trl.session();
  let length = 0;
  for await (const item of s.stream("head -c 20000000 /dev/zero | tr '\\0' x")) {
    assert.notEqual(item.type, "gap");
    if (item.type === "stdout") length += item.data.length;
    if (length % 7 === 0) await new Promise((wake) => setTimeout(wake, 1));
  }
  assert.equal(length, 20_000_000);
});

test("events tell what happens, and what has happened", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const seen = trl.events({ types: ["exec.exited", "session"] });
  const first = seen.next();
  const s = await eventually(async () => trl.session()); // the subscription may not be there yet
  const x = await s.start("exit 4");
  await x.wait();
  await s.destroy();
  const all: TrlEvent[] = [];
  for await (const event of trl.events({ afterSeq: 0, sessionId: s.id })) {
    all.push(event);
    if (event.type === "session.terminated") break;
  }
  const types = all.map((event) => event.type);
  assert.equal(types[0], "session.created");
  const exited = all.find((event) => event.type === "exec.exited");
  assert.ok(exited && "exitCode" in exited);
  assert.deepEqual([exited.execId, exited.sessionId, exited.exitCode], [x.id, s.id, 4]);
  assert.ok(all.every((event, i) => i === 0 || event.seq > all[i - 1]!.seq));
  seen.close();
  await first;
});
