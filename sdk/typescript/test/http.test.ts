import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import test, { type TestContext } from "node:test";
import { connect as connectNode, ConnectionLostError } from "@trl-dev/trl";
import { connect, type HTTPOptions, type Trl } from "@trl-dev/trl/http";
import { Daemon, eventually } from "./daemon.js";
import { collect, text } from "./items.js";

async function overHTTP(t: TestContext, ...args: string[]): Promise<{ daemon: Daemon; trl: Trl; options: HTTPOptions }> {
  const { daemon, ...options } = await Daemon.startHTTP(t, ...args);
  const trl = await connect(options);
  t.after(() => trl.close());
  return { daemon, trl, options };
}

test("everything works over HTTP", async (t) => {
  const { trl, options } = await overHTTP(t);
  const s = await trl.session({ shell: "bash", env: { some_KEY: "v" } });
  const r = await s.run("printf 'a\\xff'; echo $some_KEY >&2; exit 3", { timeoutS: 10 });
  assert.deepEqual([[...r.stdoutData], r.stderr, r.exitCode], [[0x61, 0xff], "v\n", 3]);
  assert.equal((await s.run("cat", { stdin: "open" })).stdout, "open");
  await assert.rejects(trl.findSession("s-none"), { name: "SessionNotFoundError", code: "SESSION_NOT_FOUND" });
  await assert.rejects(s.run("true", { timeoutS: -1 }), { code: "INVALID_PARAMS", details: { field: "timeout_s" } });

  const x = await s.start("echo listening; cat; exit 4", { stdinOpen: true });
  assert.equal((await x.wait({ outputMatch: "listen" }))?.reason, "output_match");
  await x.input("grüße\n");
  await x.closeInput();
  assert.equal((await x.wait())?.outcome?.exitCode, 4);
  const items = await collect(x.stream());
  assert.equal(text(items), "listening\ngrüße\n");
  assert.deepEqual(text(await collect(x.stream({ afterSeq: items[0]!.seq }))), text(items.slice(1)));
  await assert.rejects(collect(trl.exec("x-none-1").stream()), { code: "EXEC_NOT_FOUND" });

  const events: string[] = [];
  for await (const event of trl.events({ afterSeq: 0, sessionId: s.id })) {
    events.push(event.type);
    if (event.type === "exec.closed") break;
  }
  assert.equal(events[0], "session.created");
  await s.destroy();

  await using fromNode = await connectNode(options);
  assert.equal((await (await fromNode.findSession(s.id)).info()).state, "terminated");
});

test("a wrong token, or none, is refused", async (t) => {
  const { options } = await overHTTP(t);
  await assert.rejects(connect({ ...options, token: "wrong" }), { name: "AuthFailedError", code: "AUTH_FAILED" });
  await assert.rejects(connect({ url: options.url }), { code: "AUTH_FAILED" });
  process.env["TRL_AUTH_TOKEN"] = options.token;
  t.after(() => delete process.env["TRL_AUTH_TOKEN"]);
  await (await connectNode({ url: options.url })).close();
});

test("output over HTTP is exact, and read no faster than it is taken", async (t) => {
  const { trl } = await overHTTP(t, "--output-bytes", "67108864");
  const s = await trl.session();
  const stdout: Uint8Array[] = [];
  let offset = 0;
  for await (const item of s.stream("head -c 20000000 /dev/urandom | tee data", { stream: "stdout" })) {
    if (item.type !== "stdout") continue;
    assert.equal(item.offset, offset);
    offset += item.bytes.length;
    stdout.push(item.bytes);
  }
  const whole = Buffer.concat(stdout);
  assert.equal(whole.length, 20_000_000);
  const sum = (await s.run("sha256sum <data")).stdout.slice(0, 64);
  assert.equal((await import("node:crypto")).createHash("sha256").update(whole).digest("hex"), sum);
});

test("a stream over HTTP outlives the daemon", async (t) => {
  const { daemon, trl } = await overHTTP(t);
  const s = await trl.session();
  let restarts = Promise.resolve();
  let got = "";
  for await (const item of s.stream("i=0; while [ $i -lt 150 ]; do i=$((i+1)); echo grüße $i; sleep 0.01; done")) {
    assert.notEqual(item.type, "gap");
    if (item.type !== "stdout") continue;
    got += item.data;
    if (item.seq % 50 === 25) {
      await restarts;
      await daemon.kill();
      restarts = daemon.restart();
    }
  }
  await restarts;
  assert.equal(got, Array.from({ length: 150 }, (_, i) => `grüße ${i + 1}\n`).join(""));
  await daemon.kill();
  const info = s.info();
  await daemon.restart();
  assert.equal((await info).sessionId, s.id);
});

test("signals, break and close work over HTTP", async (t) => {
  const { trl } = await overHTTP(t, "--kill-grace-s", "0.1");
  const s = await trl.session();
  const abort = new AbortController();
  const running = s.run("echo on; sleep 1000", { signal: abort.signal });
  const exec = await eventually(async () => (await s.execs()).find((x) => x.state === "running"));
  abort.abort(new Error("enough"));
  await assert.rejects(running, /enough/);
  assert.equal((await trl.exec(exec.execId).wait())?.outcome?.cancelled, true);

  const stream = s.stream("while :; do echo y; sleep 0.01; done");
  for await (const item of stream) if (item.seq > 3) break;
  const x = trl.exec(await stream.execId());
  assert.equal((await x.info()).state, "running");

  const second = new AbortController();
  const again = x.stream({ signal: second.signal });
  await again.next();
  second.abort();
  await assert.rejects(async () => {
    for await (const _ of again);
  }, { name: "AbortError" });

  const third = x.stream();
  await third.next();
  const waiting = x.wait();
  await trl.close();
  await assert.rejects(waiting, ConnectionLostError);
  await assert.rejects(collect(third), ConnectionLostError);
});

/** A server that says what a test wants; pings are answered by themselves. */
async function fake(t: TestContext, handle: (method: string, params: Record<string, unknown>, res: ServerResponse, req: IncomingMessage) => void): Promise<Trl> {
  const server = createServer(async (req, res) => {
    let body = "";
    for await (const chunk of req) body += chunk;
    const method = req.url!.replace("/base/v1/", "");
    if (method === "system.ping") res.end('{"version":"fake","uptime_s":1}');
    else handle(method, JSON.parse(body) as Record<string, unknown>, res, req);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const trl = await connect({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/` });
  t.after(async () => {
    await trl.close();
    server.closeAllConnections();
    server.close();
  });
  return trl;
}

test("keep-alives, unknown things and pieces of any size are fine", async (t) => {
  const trl = await fake(t, async (method, _, res, req) => {
    assert.equal(req.headers["x-trl-keep-alive"], "1");
    if (method === "session.info") {
      res.write("\n\n"); // an answer that took long
      return res.end('{"session_id":"s-1","brand_new":1}');
    }
    if (method === "exec.run") {
      res.write("\n");
      return res.end('{"error":{"code":"SESSION_BUSY","message":"busy"}}');
    }
    const lines = [
      '{"stream_id":"1","exec_id":"x-1","mood":1}',
      "",
      '{"stream_id":"1","seq":1,"type":"weather"}',
      '{"stream_id":"1","seq":2,"type":"stdout","offset":0,"data":"grüße 🙂","colour":"red"}',
      "",
      '{"stream_id":"1","seq":3,"type":"exit","exit_code":0}',
    ];
    for (const byte of Buffer.from(lines.join("\n") + "\n")) {
      res.write(Uint8Array.of(byte));
      await new Promise(setImmediate);
    }
    res.end();
  });
  const s = await trl.findSession("s-1");
  const items = await collect(s.stream("x"));
  assert.deepEqual([text(items), items.length], ["grüße 🙂", 2]);
  await assert.rejects(s.run("x"), { code: "SESSION_BUSY" });
});

test("a stream over HTTP that breaks off goes on; a command is not sent twice", async (t) => {
  const asked: unknown[] = [];
  const trl = await fake(t, (method, params, res) => {
    asked.push([method, params]);
    if (method === "exec.run" || params["command"]) return res.destroy();
    if (asked.length === 2) return res.writeHead(502).end("<html>bad gateway</html>");
    res.write('{"stream_id":"1","exec_id":"x-1"}\n');
    if (asked.length === 1) return res.end('{"stream_id":"1","seq":1,"type":"stdout","offset":0,"data":"a"}\n'); // looks complete, but is not
    if (asked.length === 3) return res.write('{"stream_id":"1","seq":2,"type":"stdout","offset":1,"data":"b"}\n', () => res.destroy());
    res.end('{"stream_id":"1","seq":2,"type":"stdout","offset":1,"data":"b"}\n{"stream_id":"1","seq":3,"type":"exit","exit_code":0}\n');
  });
  assert.equal(text(await collect(trl.exec("x-1").stream())), "ab");
  assert.deepEqual(asked, [
    ["exec.stream", { exec_id: "x-1" }],
    ["exec.stream", { exec_id: "x-1", after_seq: 1 }],
    ["exec.stream", { exec_id: "x-1", after_seq: 1 }],
    ["exec.stream", { exec_id: "x-1", after_seq: 2 }],
  ]);
  asked.length = 0;
  await assert.rejects(trl.call("exec.run", { sessionId: "s-1", command: "x" }), ConnectionLostError);
  assert.equal(asked.length, 1);
});
