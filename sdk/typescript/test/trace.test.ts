import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import test, { type TestContext } from "node:test";
import { connect } from "@trl-dev/trl";
import { connect as connectWebSocket } from "@trl-dev/trl/websocket";
import { Daemon, eventually } from "./daemon.js";
import { fakeDaemon } from "./fake.js";

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/** The same in another trace. */
const inTrace = (id: string): string => trace.replace(trace.split("-")[1]!, id);

/** A collector that keeps what daemons export. */
async function collector(t: TestContext): Promise<{ url: string; bodies: Buffer[] }> {
  const bodies: Buffer[] = [];
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    bodies.push(Buffer.concat(parts));
    response.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
}

test("the daemon's spans are part of the caller's trace, by lines, HTTP and WebSocket", async (t) => {
  const { url: endpoint, bodies } = await collector(t);
  const { daemon, ...options } = await Daemon.startHTTP(t, "--trace-endpoint", endpoint);
  const ids = ["1", "2", "3"].map((digit) => digit.repeat(32));
  const [lines, http, webSocket] = ids.map(inTrace);
  for (const open of [
    () => connect({ socket: daemon.socket, traceparent: lines! }),
    () => connect({ ...options, traceparent: () => http }),
    () => connectWebSocket({ ...options, traceparent: webSocket! }),
  ]) {
    const trl = await open();
    await trl.run("true");
    await trl.close();
  }
  await eventually(async () => ids.every((id) => Buffer.concat(bodies).includes(Buffer.from(id, "hex"))));
});

test("each call and each stream says where it belongs, and a request that is sent again says the same", async (t) => {
  let position: string | undefined = "00-a";
  let lost = false;
  const { socket, requests } = await fakeDaemon(t, (request) => {
    if (request.method === "session.list" && !lost) {
      lost = true;
      position = "00-b";
      return request.connection.socket.destroy();
    }
    request.connection.answer(request, request.method === "session.list" ? { sessions: [] } : { stream_id: "st-1", seq: 0 });
  });
  const trl = await connect({ socket, traceparent: () => position });
  t.after(() => trl.close());
  await trl.call("session.list");
  const events = trl.events();
  position = undefined;
  void events.next().catch(() => {});
  await eventually(async () => requests.length === 3);
  await trl.call("session.list");
  const said = requests.map((request) => (request as { traceparent?: string }).traceparent);
  assert.deepEqual(said, ["00-a", "00-a", "00-b", undefined]);
  events.close();
});

test("a traceparent that no header can carry is left out", async () => {
  const seen: (string | undefined)[] = [];
  const fetching: typeof fetch = async (_, init) => {
    seen.push((init!.headers as Record<string, string>)["traceparent"]);
    return new Response("{}");
  };
  for (const traceparent of [trace, "a\r\nb: c", ""]) await (await connect({ url: "http://127.0.0.1:1", fetch: fetching, traceparent })).call("system.info");
  assert.deepEqual(seen.filter((_, i) => i % 2 === 1), [trace, undefined, undefined]); // the others are pings
});
