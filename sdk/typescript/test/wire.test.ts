import assert from "node:assert/strict";
import test from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { inspect } from "node:util";
import { ConnectionLostError, OutputChunk, TrlError, type TrlEvent } from "@trl-dev/trl";
import { fakeDaemon, type Request } from "./fake.js";
import { collect } from "./items.js";

const exit = { stream_id: "1", type: "exit", exit_code: 0 };

test("unknown fields, messages and event types are ignored", async (t) => {
  const { trl } = await fakeDaemon(t, (request) => {
    const { connection } = request;
    if (request.method === "session.info") {
      connection.say({ news: "of a kind that nobody knows" });
      connection.say({ id: "999", ok: true, data: {} });
      connection.say({ id: request.id, ok: true, data: { session_id: "s-1", brand_new: { deep_er: [1] } }, more: 1 });
      return;
    }
    connection.answer(request, { stream_id: "1", exec_id: "x-1", mood: "good" });
    connection.say({ stream_id: "1", seq: 1, type: "weather", sun: true });
    connection.say({ stream_id: "2", seq: 1, type: "stdout", offset: 0, data: "of another stream" });
    connection.say({ stream_id: "1", seq: 2, type: "stdout", offset: 0, data: "a", colour: "red" });
    connection.say({ ...exit, seq: 3, verdict: "fine" });
  });
  const s = await trl.findSession("s-1");
  assert.deepEqual((s.created as unknown as Record<string, unknown>)["brandNew"], { deepEr: [1] });
  const items = await collect(s.stream("x"));
  assert.deepEqual(items.map((item) => item.type), ["stdout", "exit"]);
});

test("unknown events of sessions are ignored", async (t) => {
  const { trl } = await fakeDaemon(t, (request) => {
    request.connection.answer(request, { stream_id: "1" });
    request.connection.say({ stream_id: "1", seq: 5, type: "session.dreaming", session_id: "s-1" });
    request.connection.say({ stream_id: "1", seq: 6, type: "session.created", session_id: "s-1", at: "2026-01-01T00:00:00Z" });
  });
  for await (const event of trl.events()) {
    assert.deepEqual(event, { seq: 6, type: "session.created", sessionId: "s-1", at: "2026-01-01T00:00:00Z" });
    break;
  }
});

test("bytes may arrive one by one, or many lines at once", async (t) => {
  const data = "grüße 🙂\u2028\n";
  const { trl } = await fakeDaemon(t, async (request) => {
    const { socket } = request.connection;
    const lines = [
      { id: request.id, ok: true, data: { stream_id: "1", exec_id: "x-1" } },
      { stream_id: "1", seq: 1, type: "stdout", offset: 0, data },
      { stream_id: "1", seq: 2, type: "stderr", offset: 0, data: "x".repeat(3_000_000) },
      { ...exit, seq: 3 },
    ].map((line) => JSON.stringify(line) + "\r\n");
    for (const byte of Buffer.from(lines[0]! + lines[1])) {
      socket.write(Uint8Array.of(byte));
      await turn();
    }
    socket.write("\n\n" + lines[2] + lines[3]);
  });
  const [out, err] = await collect(trl.exec("x-1").stream());
  assert.ok(out?.type === "stdout" && out.data === data);
  assert.ok(err?.type === "stderr" && err.data.length === 3_000_000);
});

test("output comes as bytes behind a push, whole or in pieces, or as JSON", async (t) => {
  const bodies = [Buffer.from("\n{"), Buffer.of(0xff, 0xfe, 0x0a), Buffer.alloc(0), Buffer.from("grüße"), Buffer.alloc(300_000, "x\n")];
  const { trl, requests } = await fakeDaemon(t, async (request) => {
    const { connection } = request;
    connection.answer(request, { stream_id: "1", exec_id: "x-1" });
    let offset = 0;
    for (const [i, body] of bodies.entries()) {
      const line = { stream_id: "1", seq: i + 1, type: "stdout", offset, raw: body.length };
      const message = Buffer.concat([Buffer.from(JSON.stringify(line) + "\n"), body]);
      if (requests.length === 1 && i === 1) return connection.socket.end(message.subarray(0, -1)); // cut within the bytes
      if (body.length < 100) {
        for (const byte of message) {
          connection.socket.write(Uint8Array.of(byte));
          await turn();
        }
      } else connection.socket.write(message);
      offset += body.length;
    }
    connection.say({ stream_id: "1", seq: 6, type: "stdout", offset, data: "as JSON" });
    connection.say({ ...exit, seq: 7 });
  });
  const items = await collect(trl.exec("x-1").stream());
  assert.deepEqual(requests.map((r) => [r.raw, r.params["after_seq"]]), [[true, undefined], [true, 1]]);
  const chunks = items.filter((item) => item instanceof OutputChunk);
  assert.deepEqual(chunks.map((c) => Buffer.from(c.bytes)).filter((b) => b.length > 0), [...bodies.filter((b) => b.length > 0), Buffer.from("as JSON")]);
  assert.deepEqual(chunks.slice(0, 4).map((c) => c.data), ["\n{", "\ufffd\ufffd\n", "", "grüße"]);
  assert.deepEqual({ ...chunks[0] }, { type: "stdout", seq: 1, offset: 0, data: "\n{" });
  assert.equal(inspect(chunks[0]), inspect({ ...chunks[0] }));
});

for (const raw of [-1, 1.5, "7", true, null, 8 * 1024 * 1024 + 1]) {
  test(`a push with ${raw} bytes behind it ends the connection`, async (t) => {
    const answer = (request: Request) => {
      request.connection.answer(request, { stream_id: "1", exec_id: "x-1" });
      request.connection.say({ stream_id: "1", seq: 1, type: "stdout", offset: 0, raw });
    };
    const { trl } = await fakeDaemon(t, answer, { reconnect: false });
    await assert.rejects(collect(trl.exec("x-1").stream()), ConnectionLostError);
  });
}

test("a stream goes on where its connection was lost; nothing comes twice or is lost", async (t) => {
  const bytes = Buffer.from("0123456789é", "utf8");
  const { trl, requests } = await fakeDaemon(t, (request) => {
    const { connection } = request;
    connection.answer(request, { stream_id: "1", exec_id: "x-7" });
    switch (requests.length) {
      case 1:
        connection.say({ stream_id: "1", seq: 1, type: "stdout", offset: 0, data: "012" });
        connection.say({ stream_id: "1", seq: 2, type: "stderr", offset: 0, data: "E" });
        // The beginning of a character, with the number of what is before.
        connection.say({ stream_id: "1", seq: 2, type: "stdout", offset: 3, data: "345" });
        return connection.socket.end('{"stream_id":"1","seq":3,"type":"std');
      case 2: // comes again, with more behind it
        connection.say({ stream_id: "1", seq: 2, type: "stdout", offset: 3, data: "345" });
        connection.say({ stream_id: "1", seq: 3, type: "stdout", offset: 4, data: "456789\ufffd", data_base64: bytes.subarray(4, 11).toString("base64") });
        return connection.socket.destroy();
      case 3:
        connection.say({ stream_id: "1", seq: 3, type: "error", error: { code: "RUNTIME_UNAVAILABLE", message: "going down" } });
        return;
      case 4:
        connection.say({ stream_id: "1", seq: 4, type: "gap", stream: "stdout", from: 5, to: 11 });
        connection.say({ stream_id: "1", seq: 5, type: "stdout", offset: 11, data: "\ufffd", data_base64: bytes.subarray(11).toString("base64") });
        connection.say({ stream_id: "1", seq: 6, type: "gap", stream: "stderr", from: 0, to: 9 });
        connection.say({ ...exit, seq: 7 });
    }
  });
  const items = await collect(trl.exec("x-7").stream({ fromOffset: 0, stream: "stdout" }));
  assert.deepEqual(requests.map((r) => r.params), [
    { exec_id: "x-7", from_offset: 0, stream: "stdout" },
    { exec_id: "x-7", stream: "stdout", after_seq: 2 },
    { exec_id: "x-7", stream: "stdout", after_seq: 3 },
    { exec_id: "x-7", stream: "stdout", after_seq: 3 },
  ]);
  const stdout = Buffer.concat(items.map((item) => (item.type === "stdout" ? item.bytes : Buffer.alloc(0))));
  assert.deepEqual(stdout, bytes);
  assert.deepEqual(items.filter((item) => item.type === "gap"), [{ type: "gap", seq: 6, stream: "stderr", from: 1, to: 9 }]);
  assert.equal(items.at(-1)?.type, "exit");
});

test("a viewer goes on at its byte, and keeps the size if it had it", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => {
    const { connection } = request;
    if (request.method === "session.info") return connection.answer(request, { session_id: "s-1", exec_id: "x-1-1" });
    if (request.method === "session.resize") return connection.answer(request, { cols: 90, rows: 30, applied: true });
    const n = requests.filter((r) => r.method === "session.attach").length;
    connection.answer(request, { stream_id: "1", session_id: "s-1", viewer_id: `v-${n}` });
    switch (n) {
      case 1:
        return connection.say({ stream_id: "1", seq: 1, type: "snapshot", offset: 100, data: "$ ", cols: 80, rows: 24, owner_id: "v-1", version: 3 });
      case 2:
        connection.say({ stream_id: "1", seq: 1, type: "output", offset: 100, data: "\ufffd\ufffd", data_base64: "Yf/+" });
        connection.say({ stream_id: "1", seq: 2, type: "resize", offset: 103, cols: 50, rows: 10, owner_id: "v-9" });
        return connection.socket.end();
      case 3:
        connection.say({ stream_id: "1", seq: 1, type: "weather" });
        connection.say({ stream_id: "1", seq: 2, type: "exit", offset: 103, exit_code: 3 });
    }
  });
  const viewer = (await trl.findTerminal("t")).attach({ scrollback: 9, size: { cols: 80, rows: 24 }, takeSize: true });
  const { value: first } = await viewer.next();
  await viewer.resize(90, 30);
  requests[1]!.connection.socket.destroy();
  const rest = [];
  for await (const item of viewer) rest.push(item);
  assert.deepEqual([first, ...rest].map((item) => item?.type), ["snapshot", "output", "resize", "exit"]);
  assert.deepEqual(rest[0]?.type === "output" && [...rest[0].bytes], [0x61, 0xff, 0xfe]);
  const params = { session_id: "s-1", scrollback: 9 };
  assert.deepEqual(requests.slice(1).map((r) => r.params), [
    { ...params, size: { cols: 80, rows: 24 }, take_size: true },
    { session_id: "s-1", cols: 90, rows: 30, viewer_id: "v-1" },
    { ...params, from_offset: 100, size: { cols: 90, rows: 30 }, take_size: true },
    { ...params, from_offset: 103, size: { cols: 90, rows: 30 } }, // another one has the size now
  ]);
});

test("a subscription goes on where its connection was lost, also before its first event", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => {
    const { connection } = request;
    connection.answer(request, { stream_id: "1", seq: 40 });
    if (requests.length === 1) return connection.socket.end();
    for (const seq of requests.length === 2 ? [41, 42] : [42, 43]) {
      connection.say({ stream_id: "1", seq, type: "exec.closed", session_id: "s-1", exec_id: "x-1", at: "" });
    }
    if (requests.length === 2) connection.socket.end();
  });
  const events: TrlEvent[] = [];
  for await (const event of trl.events({ types: ["exec"] })) if (events.push(event) === 3) break;
  assert.deepEqual(events.map((event) => event.seq), [41, 42, 43]);
  assert.deepEqual(requests.map((r) => r.params), [{ types: ["exec"] }, { types: ["exec"], after_seq: 40 }, { types: ["exec"], after_seq: 42 }]);
});

test("a dialogue goes on where its connection was lost, and its end is the end", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => {
    const { connection } = request;
    if (request.method === "dialogue.info") return connection.answer(request, { dialogue_id: "d-1" });
    connection.answer(request, { stream_id: "1", dialogue_id: "d-1" });
    const opened = requests.filter((r) => r.method === "dialogue.events").length;
    for (const seq of [[], [], [3, 4], [4, 5]][opened]!) {
      const input = { file_path: "a", new_string: "b" }; // of a tool, whose names are its own
      connection.say({ stream_id: "1", seq, type: "dialogue", event: { seq, type: "item", item: { item_id: "i", tool: { name: "Edit", input } } } });
    }
    connection.say({ stream_id: "1", seq: 2, type: "of the future" });
    if (opened < 3) return connection.socket.end();
    connection.say({ stream_id: "1", seq: 5, type: "end" });
    connection.say({ stream_id: "1", seq: 6, type: "dialogue", event: { seq: 6, type: "state" } });
  });
  const d = await trl.findDialogue("d-1");
  const seen: number[] = [];
  for await (const event of d.events({ afterSeq: 2, noDeltas: true })) {
    seen.push(event.seq);
    assert.deepEqual(event.item?.tool?.input, { file_path: "a", new_string: "b" });
  }
  assert.deepEqual(seen, [3, 4, 5]);
  const asked = requests.filter((r) => r.method === "dialogue.events").map((r) => r.params);
  assert.deepEqual(asked.map((params) => params["after_seq"]), [2, 2, 4]);
  assert.ok(asked.every((params) => params["dialogue_id"] === "d-1" && params["no_deltas"] === true));
});

test("a command is never sent twice", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => request.connection.socket.destroy());
  const create = trl.session();
  await assert.rejects(create, (error: unknown) => error instanceof ConnectionLostError && error.sent);
  await assert.rejects(trl.call("exec.run", { sessionId: "s-1", command: "x" }), ConnectionLostError);
  await assert.rejects(trl.call("exec.start", { sessionId: "s-1", command: "x" }), ConnectionLostError);
  await assert.rejects(trl.call("exec.input", { execId: "x-1", data: "x" }), ConnectionLostError);
  await assert.rejects(trl.call("exec.cancel", { sessionId: "s-1" }), ConnectionLostError);
  await assert.rejects(trl.call("session.destroy", { sessionId: "name" }), ConnectionLostError);
  await assert.rejects(trl.dialogue({ agent: "claude" }), ConnectionLostError);
  await assert.rejects(trl.call("dialogue.send", { dialogueId: "d-1", text: "x" }), ConnectionLostError);
  await assert.rejects(trl.call("dialogue.interrupt", { dialogueId: "d-1" }), ConnectionLostError);
  await assert.rejects(trl.call("dialogue.terminate", { dialogueId: "d-1", forget: true }), ConnectionLostError);
  assert.equal(requests.length, 10);
});

test("what an ending daemon did not create is asked of the next one, unless its sessions have ended", async (t) => {
  let details: object = {};
  const { trl, requests } = await fakeDaemon(t, (request) => {
    const { connection, id } = request;
    if (requests.length % 2 === 0) return connection.answer(request, { session_id: "s-1", dialogue_id: "d-1" });
    connection.say({ id, ok: false, error: { code: "RUNTIME_UNAVAILABLE", message: "not now", details } });
  });
  const creations = [() => trl.session(), () => trl.dialogue({ agent: "claude" })];
  details = { reason: "stopping" };
  for (const create of creations) await create();
  assert.deepEqual(requests.splice(0).map((r) => r.method), ["session.create", "session.create", "dialogue.create", "dialogue.create"]);
  await assert.rejects(trl.call("session.set", { sessionId: "s-1" }), { message: "not now" });
  for (details of [{ reason: "stopping", sessions: "ended" }, {}]) {
    for (const create of creations) {
      requests.length = 0;
      await assert.rejects(create(), { message: "not now" });
    }
  }
  assert.equal(requests.length, 1);
});

test("a command whose stream is lost before its answer is asked for again with its id, and so runs once", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => {
    const { connection } = request;
    if (request.method === "session.info") return connection.answer(request, { session_id: "s-1" });
    if (requests.length < 4) return connection.socket.destroy();
    connection.answer(request, { stream_id: "1", exec_id: "x-1" });
    connection.say({ ...exit, seq: 1 });
  });
  const s = await trl.findSession("s-1");
  assert.equal((await collect(s.stream("x"))).length, 1);
  const [first, ...again] = requests.slice(1).map((r) => r.params);
  assert.ok(first?.["run_id"]);
  assert.deepEqual(again, [first, first]);
});

test("what changes nothing, or has a write id, is asked again", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => {
    if (requests.length % 2 === 1) return request.connection.socket.destroy();
    request.connection.answer(request, { session_id: "s-1", exec_id: "x-1", dialogue_id: "d-1", happened: [{ reason: "exit" }] });
  });
  await trl.call("session.info", { sessionId: "s-1" });
  await trl.exec("x-1").input("text");
  await trl.exec("x-1").cancel();
  await trl.call("session.destroy", { sessionId: "s-1" });
  await trl.exec("x-1").wait({ timeoutS: 60 });
  const d = await trl.findDialogue("d-1");
  await d.send("hello");
  await d.terminate();
  assert.equal(requests.length, 16);
  const [once, again] = requests.filter((r) => r.method === "dialogue.send").map((r) => r.params["message_id"]);
  assert.ok(once && once === again);
  const [first, second] = requests.filter((r) => r.method === "exec.input").map((r) => r.params["write_id"]);
  assert.ok(first && first === second);
  const waits = requests.filter((r) => r.method === "exec.wait").map((r) => r.params["timeout_s"] as number);
  assert.ok(waits[0]! <= 60 && waits[1]! <= waits[0]!);
});

test("again is not for ever", async (t) => {
  const { trl, requests } = await fakeDaemon(t, (request) => request.connection.socket.destroy(), { reconnect: { timeoutS: 0.1 } });
  await assert.rejects(trl.call("session.list"), ConnectionLostError);
  assert.ok(requests.length > 1);
});

test("without reconnecting a lost connection is an error that tells how to read on", async (t) => {
  const answerOnce = (request: Request) => {
    request.connection.answer(request, { stream_id: "1", exec_id: "x-1" });
    request.connection.say({ stream_id: "1", seq: 9, type: "stdout", offset: 0, data: "a" });
    request.connection.socket.end();
  };
  const lost = (error: unknown) => {
    assert.ok(error instanceof ConnectionLostError);
    assert.deepEqual(error.details, { exec_id: "x-1", after_seq: 9 });
    return true;
  };
  const { trl, requests } = await fakeDaemon(t, answerOnce);
  await assert.rejects(collect(trl.exec("x-1").stream({ reconnect: false })), lost);
  assert.equal(requests.length, 1);
  const never = await fakeDaemon(t, answerOnce, { reconnect: false });
  await assert.rejects(collect(never.trl.exec("x-1").stream()), lost);
});

test("a stream that breaks off with an error throws it", async (t) => {
  const { trl } = await fakeDaemon(t, (request) => {
    request.connection.answer(request, { stream_id: "1", exec_id: "x-1" });
    request.connection.say({ stream_id: "1", seq: 0, type: "error", error: { code: "NEWS", message: "no more", details: { some_key: 1 } } });
  });
  const stream = trl.exec("x-1").stream();
  await assert.rejects(stream.next(), (error: unknown) => {
    assert.ok(error instanceof TrlError);
    assert.deepEqual([error.code, error.message, error.details], ["NEWS", "no more", { some_key: 1 }]);
    return true;
  });
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
});

test("a connection that is refused as a whole says why", async (t) => {
  const { trl } = await fakeDaemon(t, ({ connection }) => {
    connection.say({ id: null, ok: false, error: { code: "FORBIDDEN", message: "not you" } });
    connection.socket.end();
  });
  await assert.rejects(trl.call("session.list"), { code: "FORBIDDEN", message: "not you" });
});

test("what is not the protocol ends the connection", async (t) => {
  const { trl } = await fakeDaemon(t, ({ connection }) => connection.socket.write("HTTP/1.1 400 Bad Request\n"), { reconnect: false });
  await assert.rejects(trl.call("session.list"), ConnectionLostError);
});

test("answers come in any order", async (t) => {
  const { trl, requests } = await fakeDaemon(t, () => {
    if (requests.length < 100) return;
    for (const r of [...requests].reverse()) r.connection.answer(r, { session_id: r.params["session_id"] as string });
  });
  const ids = Array.from({ length: 100 }, (_, i) => `s-${i}`);
  const infos = await Promise.all(ids.map((sessionId) => trl.call("session.info", { sessionId })));
  assert.deepEqual(infos.map((info) => info.sessionId), ids);
});

test("a stream is read no faster than its consumer takes it", async (t) => {
  const data = "x".repeat(64 * 1024);
  const total = 1000; // 64 MB
  let sent = 0;
  const { trl } = await fakeDaemon(t, async (request) => {
    request.connection.answer(request, { stream_id: "1", exec_id: "x-1" });
    const { socket } = request.connection;
    for (let i = 0; i < total; i++) {
      const room = socket.write(JSON.stringify({ stream_id: "1", seq: i + 1, type: "stdout", offset: i * data.length, data }) + "\n");
      sent++;
      if (!room) await new Promise((resolve) => socket.once("drain", resolve));
    }
    request.connection.say({ ...exit, seq: total + 1 });
  });
  const stream = trl.exec("x-1").stream();
  await stream.next();
  for (let before = -1; before !== sent; ) {
    before = sent;
    for (let i = 0; i < 1000; i++) await turn(); // until nothing moves any more
  }
  assert.ok(sent < 50, `${sent} of ${total} were taken`);
  assert.equal((await trl.call("system.ping")).version, "fake");
  assert.equal((await collect(stream)).length, total);
});
