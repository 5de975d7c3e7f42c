import assert from "node:assert/strict";
import test from "node:test";
import { connect } from "@trl-dev/trl/websocket";
import { Daemon } from "./daemon.js";
import { collect, text } from "./items.js";

test("everything works over a WebSocket, and streams share it", async (t) => {
  const { daemon: _, ...options } = await Daemon.startHTTP(t);
  const trl = await connect(options);
  t.after(() => trl.close());
  const s = await trl.session();
  assert.equal((await s.run("echo one")).stdout, "one\n");
  assert.equal(text(await collect(s.stream("printf 'a\\377'; echo b"))), "a\ufffdb\n");
  for (let i = 0; i < 100; i++) { // more than a connection may have at once, were they not closed
    for await (const event of trl.events({ afterSeq: 0, sessionId: s.id })) {
      assert.equal(event.type, "session.created");
      break;
    }
  }
  await s.destroy();
  await assert.rejects(connect({ ...options, token: "wrong" }), { name: "AuthFailedError", code: "AUTH_FAILED" });
  await assert.rejects(connect({ url: "http://127.0.0.1:1", token: "any" }), { name: "ConnectionLostError", sent: false });
});

test("a typist types in order and once, also over lost connections", async (t) => {
  const { daemon, ...options } = await Daemon.startHTTP(t);
  const codes: number[] = [];
  const trl = await connect({ ...options, onClose: (code) => codes.push(code) });
  t.after(() => trl.close());
  const terminal = await trl.terminal({ command: ["sh", "-c", "stty -echo; read line; printf '%s' \"$line\" | tr -d '\\n' | cksum; read rest"] });
  const typist = terminal.typist();
  let all = "";
  for (let i = 0; i < 300; i++) {
    all += String(i) + ",";
    void typist.type(String(i) + ",");
    if (i === 150) {
      await daemon.kill();
      await daemon.restart();
    }
  }
  assert.ok(typist.waiting >= 0);
  await typist.keys("enter");
  assert.equal(typist.waiting, 0);
  const shown = await terminal.wait({ text: "^[0-9]+ ([0-9]+)", timeoutS: 60 });
  assert.equal(shown?.groups?.[1], String(all.length));
  assert.ok(codes.length >= 1);
  await terminal.destroy();
});
