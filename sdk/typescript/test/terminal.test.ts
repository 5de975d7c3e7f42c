import assert from "node:assert/strict";
import test from "node:test";
import { ConnectionLostError, Snapshot, TerminalOutput, TrlError, type TerminalItem, type TerminalStream, type Trl } from "@trl-dev/trl";
import { connect } from "@trl-dev/trl/http";
import { Daemon, eventually } from "./daemon.js";

/** A shell whose prompt is the same everywhere. */
const shell = { command: ["sh"], env: { PS1: "$ " }, cols: 40, rows: 6 };

/** The bytes of what comes, up to and with the exit. */
async function collect(stream: AsyncIterable<TerminalItem>): Promise<{ text: string; items: TerminalItem[] }> {
  const items: TerminalItem[] = [];
  const pieces: Uint8Array[] = [];
  for await (const item of stream) {
    items.push(item);
    if (item.type === "output") pieces.push(item.bytes);
  }
  return { text: Buffer.concat(pieces).toString(), items };
}

/** Reads until the output has this text. */
async function until(stream: TerminalStream, text: string): Promise<string> {
  let seen = "";
  while (!seen.includes(text)) {
    const { value } = await stream.next();
    assert.ok(value, `the stream has ended before ${text}`);
    if (value.type === "output" || value.type === "snapshot") seen += value.data;
  }
  return seen;
}

async function drive(trl: Trl): Promise<void> {
  const t = await trl.terminal(shell);
  assert.deepEqual([t.created.kind, t.created.state, t.created.terminal?.cols], ["terminal", "running", 40]);
  await t.wait({ cursor: { x: 2, y: 0 } });
  const { version } = await t.screen();
  assert.equal((await t.input("echo hal", { writeId: "w" })).bytes, 8);
  assert.equal((await t.input("echo hal", { writeId: "w" })).repeated, true);
  await t.input("lo", { keys: ["enter"] });
  const found = await t.wait({ text: "^hal(.*)", sinceVersion: version, timeoutS: 30 });
  assert.deepEqual([found?.reason, found?.match, found?.groups], ["text", "hallo", ["hallo", "lo"]]);
  await t.wait({ cursor: { x: 2, y: 2 } });
  const screen = await t.screen();
  assert.match(screen.text ?? "", /^\$ echo hallo\nhallo\n\$/);
  assert.deepEqual([screen.cols, screen.rows, screen.cursor.x, screen.cursor.y], [40, 6, 2, 2]);
  const cells = (await t.screen({ format: "cells" })).lines;
  assert.equal(cells?.[1]?.cells?.[0]?.text, "hallo");
  assert.equal(await t.wait({ text: "never", timeoutS: 0.01 }), null);
  assert.equal((await t.resize(50, 7)).applied, true);
  await t.input(new TextEncoder().encode("stty size\r"));
  await t.wait({ text: "^7 50$" });
  await t.wait({ cursor: { x: 2, y: 4 } });
  await t.paste("echo pasted");
  await t.keys("enter");
  await t.wait({ text: "^pasted$" });
  await t.wait({ cursor: { x: 2, y: 6 } });
  const again = await trl.findTerminal(t.id);
  await again.input("exit 5", { keys: ["enter"] });
  assert.deepEqual(await again.wait({ exit: true }).then((r) => [r?.reason, r?.exitCode]), ["exit", 5]);
  assert.match((await t.screen()).text ?? "", /pasted\n\$ exit 5/);
  assert.equal((await t.info()).exitCode, 5);
  assert.match((await t.exec.output()).data, /pasted\r\n/);
  await assert.rejects(t.input("late"), { code: "SESSION_TERMINATED" });
}

test("a terminal is driven by text, keys and what it shows", async (t) => {
  const { daemon, url, token } = await Daemon.startHTTP(t);
  await drive(await daemon.connect(t));
  await using web = await connect({ url, token });
  await drive(web);
});

test("a viewer gets the screen, then every byte, then the exit", async (t) => {
  const { daemon, url, token } = await Daemon.startHTTP(t);
  await using web = await connect({ url, token });
  for (const trl of [await daemon.connect(t), web]) {
    const term = await trl.terminal(shell);
    await term.wait({ cursor: { x: 2, y: 0 } });
    const stream = term.attach({ size: { cols: 60, rows: 9 } });
    const { value: first } = await stream.next();
    assert.ok(first instanceof Snapshot);
    assert.deepEqual([first.cols, first.rows, first.offset, first.ownerId], [60, 9, 2, await stream.viewerId()]);
    assert.match(first.data, /\$/);
    assert.deepEqual(await stream.resize(61, 9).then((r) => [r.applied, r.cols]), [true, 61]);
    const { value: resized } = await stream.next();
    assert.ok(resized?.type === "resize");
    assert.deepEqual([resized.cols, resized.rows, resized.ownerId], [61, 9, await stream.viewerId()]);
    await assert.rejects(term.resize(70, 10), { code: "CONFLICT" });
    assert.equal((await term.resize(70, 10, { force: true })).applied, true);
    await term.input("printf 'gr\\303\\274\\303\\237e'; exit 3", { keys: ["enter"] });
    const { text, items } = await collect(stream);
    assert.ok(text.endsWith("grüße"), text);
    const last = items.at(-1);
    assert.ok(last?.type === "exit");
    assert.equal(last.exitCode, 3);
    assert.ok(items.some((item) => item instanceof TerminalOutput && item.offset >= 2));
    const rest = await collect(term.attach({ fromOffset: 2, readOnly: true })); // it has ended, and can still be read
    assert.equal(rest.text, text);
    await assert.rejects(term.attach().next(), { code: "SESSION_TERMINATED" });
  }
});

test("break lets a viewer go", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const term = await trl.terminal(shell);
  for await (const item of term.attach()) if (item.type === "snapshot") break;
  await eventually(async () => (await term.info()).terminal?.viewers === 0);
  await term.keys("ctrl-d");
  await term.wait({ exit: true });
});

test("a viewer outlives the daemon, byte for byte, and keeps the size", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t);
  const count = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo grüße $i; sleep 0.005; done; exit 4";
  const term = await trl.terminal({ command: ["sh", "-c", `read go; ${count}`], cols: 40, rows: 6 });
  const stream = term.attach({ size: { cols: 44, rows: 7 } });
  await stream.next();
  const viewer = await stream.viewerId();
  await stream.resize(45, 7);
  await term.keys("enter");
  const pieces: Uint8Array[] = [];
  let restarts = Promise.resolve();
  let killed = 0;
  let exit = -1;
  for await (const item of stream) {
    assert.notEqual(item.type, "snapshot");
    if (item.type === "exit") exit = item.exitCode;
    if (item.type !== "output") continue;
    pieces.push(item.bytes);
    if (killed < 3 && Buffer.concat(pieces).includes(`grüße ${50 + 80 * killed}\r\n`)) {
      killed++;
      await restarts;
      await daemon.kill();
      restarts = daemon.restart(); // the stream waits for it
    }
  }
  await restarts;
  assert.equal(exit, 4);
  assert.equal(killed, 3);
  assert.equal(Buffer.concat(pieces).toString(), "\r\n" + Array.from({ length: 300 }, (_, i) => `grüße ${i + 1}\r\n`).join(""));
  assert.notEqual(await stream.viewerId(), viewer);
  assert.deepEqual([(await term.screen()).cols, (await term.screen()).rows], [45, 7]);
});

test("a viewer that cannot come back says where it was", async (t) => {
  const daemon = await Daemon.start(t);
  const trl = await daemon.connect(t, { reconnect: { timeoutS: 0.2 } });
  const term = await trl.terminal(shell);
  await term.wait({ cursor: { x: 2, y: 0 } });
  const stream = term.attach();
  await until(stream, "$ ");
  await daemon.kill();
  await assert.rejects(stream.next(), (error: unknown) => {
    assert.ok(error instanceof ConnectionLostError);
    assert.deepEqual(error.details, { session_id: term.id, from_offset: 2 });
    return true;
  });
});

test("a program on pipes: bytes in, bytes out, by offset", async (t) => {
  const { daemon, url, token } = await Daemon.startHTTP(t);
  await using web = await connect({ url, token });
  for (const trl of [await daemon.connect(t), web]) {
    const p = await trl.program(["sh", "-c", "echo begun >&2; cat; exit 6"], { env: { A: "b" } });
    const out: Uint8Array[] = [];
    const reading = (async () => {
      for await (const chunk of p.stdout()) out.push(chunk.bytes);
    })();
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    await p.input("text\n");
    await p.input(bytes);
    assert.equal((await p.wait({ waitingForInput: true }))?.reason, "waiting_for_input");
    assert.equal((await p.closeInput()).written, 261);
    await reading;
    assert.deepEqual(Buffer.concat(out), Buffer.concat([Buffer.from("text\n"), bytes]));
    const later: number[] = [];
    for await (const chunk of p.stdout({ fromOffset: 259 })) later.push(...chunk.bytes);
    assert.deepEqual(later, [254, 255]);
    let err = "";
    for await (const chunk of (await trl.findProgram(p.id)).stderr()) err += chunk.data;
    assert.equal(err, "begun\n");
    assert.equal((await p.wait({ exit: true }))?.exitCode, 6);
  }
});

test("bytes of a program that are gone are an error, not a gap", async (t) => {
  const trl = await (await Daemon.start(t, "--output-bytes", "65536")).connect(t);
  const p = await trl.program(["sh", "-c", "head -c 1000000 /dev/zero"]);
  await p.wait({ exit: true });
  await assert.rejects(async () => {
    for await (const _ of p.stdout());
  }, (error: unknown) => error instanceof TrlError && error.code === "INVALID_PARAMS" && "gap" in error.details);
});

test("a recording is read piece by piece", async (t) => {
  const trl = await (await Daemon.start(t)).connect(t);
  const term = await trl.terminal({ ...shell, record: true });
  await term.wait({ cursor: { x: 2, y: 0 } });
  await term.input("exit", { keys: ["enter"] });
  await term.wait({ exit: true });
  let cast = "";
  for await (const piece of term.recording()) cast += piece;
  const [head, ...events] = cast.trimEnd().split("\n");
  assert.equal((JSON.parse(head!) as { version: number }).version, 3);
  assert.ok(events.some((line) => (JSON.parse(line) as unknown[])[2] === "$ "), cast);
  const plain = await trl.terminal(shell);
  await assert.rejects(async () => {
    for await (const _ of plain.recording());
  }, TrlError);
});
