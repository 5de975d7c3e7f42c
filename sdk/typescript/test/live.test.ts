import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as dialTCP, createServer, type AddressInfo, type Socket } from "node:net";
import test, { type TestContext } from "node:test";
import { connect, LiveConnection, type LiveOptions, type LiveState, type Push } from "@trl-dev/trl/websocket";
import { Daemon, eventually } from "./daemon.js";

/** A live connection that is closed at the end of the test, and the states that it had. */
function live(t: TestContext, options: LiveOptions): { live: LiveConnection; states: LiveState[] } {
  const states: LiveState[] = [];
  const connection: LiveConnection = new LiveConnection({
    ...options,
    onChange: () => {
      states.push(connection.state);
      options.onChange?.();
    },
  });
  t.after(() => connection.close());
  return { live: connection, states };
}

const online = (connection: LiveConnection) => eventually(async () => connection.state === "online");

test("a live connection comes back after the daemon, and says what it waits for", async (t) => {
  const { daemon, ...options } = await Daemon.startHTTP(t);
  let opened = 0;
  const codes: number[] = [];
  const { live: c, states } = live(t, { ...options, onOpen: () => opened++, onClose: (code) => codes.push(code) });
  await assert.rejects(c.call("system.ping"), { name: "ConnectionLostError", lost: true, sent: false });
  await online(c);
  assert.equal(c.lostAt, 0);
  assert.equal(((await c.call("session.list")) as { sessions: unknown[] }).sessions.length, 0);
  await assert.rejects(c.call("session.info", { session_id: "none" }), { code: "SESSION_NOT_FOUND", lost: false });

  const { session_id } = (await c.call("session.create")) as { session_id: string };
  const long = c.call("exec.run", { session_id, command: "sleep 600" });
  await eventually(async () => ((await c.call("session.info", { session_id })) as { state: string }).state === "running");
  const lost = assert.rejects(long, { name: "ConnectionLostError", lost: true, sent: true, details: { close_code: 1006 } });
  await daemon.kill();
  await lost;
  await eventually(async () => c.state === "waiting");
  assert.ok(c.lostAt > 0 && c.nextTry >= c.lostAt);
  assert.deepEqual(codes, [1006]);
  await daemon.restart();
  c.kick();
  await online(c);
  assert.equal(c.lostAt, 0);
  assert.equal(opened, 2);
  await daemon.terminate();
  await eventually(async () => c.state === "waiting");
  assert.deepEqual(codes, [1006, 1012]);
  assert.deepEqual(states.slice(0, 2), ["online", "waiting"]);
});

test("pushes come in order, after the start of their stream, until it is ended", async (t) => {
  const { daemon: _, ...options } = await Daemon.startHTTP(t);
  const { live: c } = live(t, options);
  await online(c);
  const pushes: Push[] = [];
  let started = false;
  const stream = await c.stream("event.subscribe", { after_seq: 0 }, (push) => {
    assert.ok(started, "a push came before the start");
    pushes.push(push);
  });
  started = true;
  const { session_id } = (await c.call("session.create")) as { session_id: string };
  await eventually(async () => pushes.some((push) => push.type === "session.created"));
  const order = pushes.map(({ seq }) => seq);
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
  c.end(stream.stream_id);
  const n = pushes.length;
  await c.call("session.destroy", { session_id });
  // The pushes of another stream show that those of the first would have come.
  const others: Push[] = [];
  await c.stream("event.subscribe", { after_seq: 0 }, (push) => others.push(push));
  await eventually(async () => others.some((push) => push.type === "session.terminated"));
  assert.equal(pushes.length, n);
});

test("a restart makes a new connection; a closed one makes none", async (t) => {
  const { daemon: _, ...options } = await Daemon.startHTTP(t);
  let opened = 0;
  const { live: c, states } = live(t, { ...options, onOpen: () => opened++ });
  await online(c);
  c.restart();
  await eventually(async () => opened === 2);
  assert.deepEqual(states, ["online", "waiting", "connecting", "online"]);
  c.close();
  await assert.rejects(c.call("system.ping"), { lost: true });
  c.kick();
  assert.equal(states.length, 4);
});

test("a connection whose token is over is not tried again before it is kicked", async (t) => {
  const { daemon, ...options } = await Daemon.startHTTP(t);
  const { live: c } = live(t, options);
  await online(c);
  const trl = await connect(options);
  t.after(() => trl.close());
  const was = await daemon.replaceToken();
  await eventually(async () => c.state === "over");
  await assert.rejects(trl.call("session.list"), { name: "AuthFailedError" });
  assert.ok(c.lostAt > 0);
  await daemon.replaceToken(was);
  c.kick();
  await eventually(async () => {
    if (c.state === "over") c.kick(); // the daemon may not have read its file yet
    return c.state === "online";
  });
});

test("a refused handshake asks why, and is over if there is no login", async (t) => {
  const { daemon: _, ...options } = await Daemon.startHTTP(t);
  let token = "a-token-that-is-not-known";
  let asked = 0;
  const { live: c, states } = live(t, {
    url: options.url,
    protocols: () => ["trl.token." + token],
    isOver: async () => {
      if (++asked === 1) throw new Error("the daemon cannot be asked");
      return asked > 2;
    },
  });
  await eventually(async () => c.state === "over");
  assert.equal(asked, 3);
  assert.ok(!states.includes("online"));
  token = options.token; // the next connection offers it
  c.kick();
  await online(c);
});

/** Stands before a daemon, and can cut what goes through it. */
async function before(t: TestContext, url: string): Promise<{ url: string; cut(): void }> {
  const open = new Set<Socket>();
  const server = createServer((from) => {
    const to = dialTCP(Number(new URL(url).port), "127.0.0.1");
    for (const [a, b] of [[from, to], [to, from]] as const) {
      open.add(a);
      a.on("error", () => {}).on("close", () => (open.delete(a), b.destroy()));
      a.pipe(b);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => open.forEach((socket) => socket.destroy());
  t.after(() => (server.close(), cut()));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cut };
}

test("a flood that is cut goes on by its offset, without a byte lost or twice", async (t) => {
  const { daemon: _, ...options } = await Daemon.startHTTP(t);
  const between = await before(t, options.url);
  const control = await connect(options);
  t.after(() => control.close());
  const session = await control.session();
  const exec = await session.start("for i in $(seq 40000); do echo line $i; done");
  let text = "";
  let over = false;
  let cuts = 0;
  const { live: c } = live(t, {
    ...options,
    url: between.url,
    onOpen: () =>
      void c
        .stream("exec.stream", { exec_id: exec.id, stream: "stdout", from_offset: text.length }, (push) => {
          if (push.type === "stdout") {
            assert.equal(push.offset, text.length);
            text += push.data;
            if (text.length > (cuts + 1) * 100_000 && cuts < 3) {
              cuts++;
              between.cut();
            }
          }
          over ||= push.type === "exit";
        })
        .catch(() => {}),
  });
  await eventually(async () => over);
  assert.equal(text, Array.from({ length: 40000 }, (_, i) => `line ${i + 1}\n`).join(""));
  assert.equal(cuts, 3);
});
